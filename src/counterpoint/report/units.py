"""Format numbers as text: the only place that chooses units and drops digits.

Times are always in milliseconds, as in the JSON, so that figures in different tables compare. An
unknown figure is `?`, never 0; one too small for its digits is `<0.01`, not 0.00.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

UNKNOWN: Final = "?"
_MANY: Final = 2.0  # from here on a multiple is clearer than a percentage

Number = float | int | None

_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_DECIMAL: Final = ("", "K", "M", "G", "T", "P", "E")
_DIGITS: Final = 4
_SHORT: Final = 0.1  # ms: below this, two decimals show too little of a range


def known(value: Number) -> float | None:
    """Return the value as a float, or None if it is None or not finite (0/0, x/0)."""
    return None if value is None or not math.isfinite(value) else float(value)


def column(values: Iterable[Number], decimals: int | None = None) -> list[str]:
    """Format a column of figures, all with as many decimals as the largest needs."""
    figures = [known(value) for value in values]
    shown = decimals_of(figures) if decimals is None else decimals
    return [_fixed(figure, shown) for figure in figures]


def differences(values: Sequence[Number]) -> list[str]:
    """Format a column of differences with their signs; 0 if none of its digits is visible."""
    figures = [known(value) for value in values]
    decimals = decimals_of(figures)
    return [_difference(figure, decimals) for figure in figures]


def _difference(figure: float | None, decimals: int) -> str:
    if figure is None:
        return UNKNOWN
    return "0" if abs(figure) < 0.5 * 10**-decimals else f"{figure:+,.{decimals}f}"


def decimals_of(values: Iterable[Number]) -> int:
    """Return the decimals that show four digits of the largest figure, from one to five."""
    largest = max((abs(f) for f in map(known, values) if f is not None), default=0.0)
    before = math.floor(math.log10(largest)) + 1 if largest > 0 else 1
    return min(max(_DIGITS - max(before, 1), 1) + max(-before, 0), 5)


def milliseconds(ms: Number) -> str:
    """Format a time with its unit: `131.3 ms`."""
    shown = column([ms])[0]
    return shown if shown == UNKNOWN else f"{shown} ms"


def percent(share: Number, decimals: int = 1) -> str:
    """Format a fraction of 1 as `89.5%`."""
    figure = known(share)
    return UNKNOWN if figure is None else f"{_fixed(figure * 100, decimals)}%"


def part(share: Number) -> str:
    """Format a fraction that may be far above 1: `89.5%`, or `12 times`."""
    figure = known(share)
    if figure is None or figure < _MANY:
        return percent(share)
    return f"{figure:,.0f} times"


def percentages(parts: Sequence[float]) -> list[str]:
    """Format the parts as shares of their sum, each rounded as it is anywhere else."""
    whole = sum(parts)
    return [percent(part / whole if whole > 0 else None) for part in parts]


def count(number: Number) -> str:
    """Format a count: `3,440`; with decimals if devices differ: `0.94`."""
    figure = known(number)
    if figure is None:
        return UNKNOWN
    return f"{figure:,.0f}" if abs(figure - round(figure)) < 5e-3 else f"{figure:,.2f}"


def shown_of(shown: int, number: int) -> str:
    """Format how many of all are shown: `10 of 3,440`, or the number alone if all are."""
    return f"{number:,}" if shown == number else f"{shown:,} of {number:,}"


def size(number: Number) -> str:
    """Format bytes as `67.6 MiB`."""
    figure = known(number)
    if figure is None:
        return UNKNOWN
    power = _power(figure, 1024, len(_BINARY))
    shown = f"{figure:,.0f}" if not power else f"{figure / 1024**power:,.1f}"
    return f"{shown} {_BINARY[power]}"


def rate(per_second: Number, unit: str) -> str:
    """Format a rate as `862.9 TFLOP/s` or `421.4 GB/s`."""
    figure = known(per_second)
    if figure is None:
        return UNKNOWN
    power = _power(figure, 1000, len(_DECIMAL))
    return f"{column([figure / 1000**power])[0]} {_DECIMAL[power]}{unit}/s"


def span(low: Number, high: Number) -> str:
    """Format a range of times: `0 to 6.94 ms`; a short one with two digits: `0.013 to 0.035 ms`.

    It is one time if both ends look alike: `0.16 ms`.
    """
    largest = max((abs(f) for f in map(known, (low, high)) if f is not None), default=0.0)
    short = 0 < largest < _SHORT
    first, last = column([low, high], min(1 - math.floor(math.log10(largest)), 5) if short else 2)
    return f"{last} ms" if first == last else f"{first} to {last} ms"


def shift(us: float, unmoved: str) -> str:
    """Format a change of a start: `3.2 us later`, or `unmoved` if no digit shows it."""
    return f"{abs(us):,.1f} us {'earlier' if us < 0 else 'later'}" if round(us, 1) else unmoved


def _fixed(figure: float | None, decimals: int) -> str:
    if figure is None:
        return UNKNOWN
    if figure == 0:
        return "0"
    if abs(figure) < 0.5 * 10**-decimals:
        least = f"{10**-decimals:.{decimals}f}"
        return f"<{least}" if figure > 0 else f">-{least}"
    return f"{figure:,.{decimals}f}"


def _power(figure: float, base: int, powers: int) -> int:
    power = 0
    while power < powers - 1 and abs(figure) >= base ** (power + 1):
        power += 1
    return power
