"""What a study may spend, and shares of a step, as people write them."""

from __future__ import annotations

import re
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.tune.plan import Budget

_UNITS: Final = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART: Final = re.compile(r"(\d{1,9}(?:\.\d+)?)\s*([a-z]+)")
_SHARE: Final = re.compile(r"(\d{1,3}(?:\.\d+)?|\.\d+)\s*(%?)")
_EXAMPLE: Final = "--budget 2h, --budget 20trials, or --budget '20 trials, 2h'"


def read_budget(text: str | None) -> Budget:
    """`2h`, `1h30m`, `20 trials`, `20 trials, 2h`; each kind once."""
    if text is None:
        return Budget()
    rest = re.sub(r"[\s,]+|\band\b", " ", text.strip().lower()).strip()
    trials: int | None = None
    seconds: float | None = None
    while rest:
        part = _PART.match(rest)
        if part is None:
            raise _bad_budget(text)
        number, unit = part[1], part[2]
        if unit in ("trial", "trials") and trials is None and number.isdecimal():
            trials = int(number)
        elif unit in _UNITS:
            seconds = (seconds or 0.0) + float(number) * _UNITS[unit]
        else:
            raise _bad_budget(text)
        rest = rest[part.end() :].strip()
    if (trials is None and seconds is None) or trials == 0 or seconds == 0:
        raise _bad_budget(text)
    return Budget(trials=trials, seconds=seconds)


def _bad_budget(text: str) -> UsageError:
    bare = bool(re.fullmatch(r"\s*\d+(\.\d+)?\s*", text))
    return UsageError(
        f"--budget takes a time, a number of trials, or both, not {text!r}",
        why=f"{text.strip()} of what? with a space between, both stand in quotes" if bare else None,
        next=_EXAMPLE,
    )


def read_share(option: str, text: str, *, example: str) -> float:
    """`2%` or `0.02`; what is over a half can't be meant."""
    written = _SHARE.fullmatch(text.strip())
    value = float("nan") if written is None else float(written[1]) / (100 if written[2] else 1)
    if not 0 <= value <= 0.5:
        raise UsageError(
            f"{option} takes a share of the step from 0 to 50%, not {text!r}",
            next=f"{option} {example}",
        )
    return value


def refuse_low(option: str, value: float | None, least: float) -> None:
    """An error where a number is below what makes sense."""
    if value is not None and not least <= value < float("inf"):
        raise UsageError(f"{option} takes a number from {least:g} on, not {value:g}")
