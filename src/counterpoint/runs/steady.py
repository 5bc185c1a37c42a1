"""`steady`: the end of a run's warm-up, and the step time from there on.

Levels are found by change points in the logarithms of the step times (the best piecewise constant
fit, each change at a price). Single spikes (a checkpoint, a stalled loader) are clipped
for that, and count again in the figures. Levels with a negligible difference are merged. The last
level must be long enough and without a trend; otherwise the program has no step time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from counterpoint.core import Unknown

__all__ = ["ENOUGH", "FEWEST", "Steady", "settled", "steady"]

Logs = npt.NDArray[np.float64]

ENOUGH: Final = 15
"""The desired number of steps of the last level."""
FEWEST: Final = 5
"""The minimum for a figure, and the minimum length of a level."""
_SHORT: Final = 2 * ENOUGH
"""In a run of fewer steps, a short warm-up is skipped by rule if no change was found."""
_SKIP: Final = 5
_SKIP_SHARE: Final = 0.2
_SAME: Final = 0.01
"""Levels that differ by less are merged, as are those within twice their scatter."""
_LATE: Final = 0.05
"""A few last steps at another pace count like the others, if it differs by less."""
_DRIFT: Final = 0.02
"""A drift that moves the median by a larger share counts, if it also exceeds the scatter."""
_STRAIGHT: Final = 3.0
"""A drift counts if it moves the median by so many times the scatter of its parts around the line.

A program that becomes slower does so along a line. Of steps on a busy machine, each like the one
before it, a part is now and then above the one before it by chance, but no line fits them: without
this, one in 25 such runs had a slope (simulated: AR(1) of 5 and 10%), and one in 100 has with it.
"""
_UNLIKELY: Final = 0.01
_BETTER: Final = 0.8
"""A slope is preferred to levels if its residual scatter is below this share of theirs."""
_PRICE: Final = 30.0
"""The price of a change point, in variances of step to step, times log(n).

3 would do for independent noise; real steps depend on the one before, and wander (rule of thumb).
"""
_QUIET: Final = 0.002
"""The smallest noise assumed for any run, as a share."""
_ARRIVED: Final = 0.25
"""Share of the slope that may remain in the second half of a level that converges."""
_SLOPE_OF: Final = 1000
"""Maximum number of steps for the slope, which is computed from all pairs of them."""
_SPIKE: Final = 5.0  # sigma from the median of the steps around it
_AROUND: Final = 3
_LATEST: Final = 4000
"""The number of last steps that are used of a very long run."""
_TO_SIGMA: Final = 1.4826  # from a median deviation
_QUARTILE: Final = 1.1503  # the upper quartile of deviations, in sigma


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """The steps of a run after its warm-up, as one figure."""

    median_s: float
    steps: int
    warm_up: int  # excluded steps before them
    spread: float  # within the run, as a share; not a measure of differences between runs
    source: str  # the source of the steps: annotation, api, log or profile
    notes: tuple[str, ...] = ()


def steady(seconds: Sequence[float], source: str) -> Steady | Unknown:
    """Return the steps after the warm-up as one figure; Unknown has the reason if there is none.

    Args:
        seconds: The time of each step, in order, without those in which something was compiled.
        source: How the steps were recorded.
    """
    known = [step_s for step_s in seconds if 0 < step_s < math.inf]
    early, late = max(len(known) - _LATEST, 0), known[-_LATEST:]
    if len(late) < FEWEST:
        return Unknown(
            f"{len(late)} undisturbed steps were recorded; at least {FEWEST} are required"
        )
    logs = np.log(np.asarray(late, dtype=np.float64))
    starts = _levels(logs)
    start, notes = _begin(logs, starts)
    if isinstance(notes, Unknown):
        return notes
    if len(logs) - start < FEWEST:
        return Unknown(
            f"{len(logs) - start} steps after a warm-up of {start}: too few for a step time"
        )
    start = _settled(logs, start)
    if reason := _drifting(logs, start):
        return Unknown(reason)
    rest = logs[start:]
    middle = float(np.median(rest))
    return Steady(
        median_s=float(np.median(late[start:])),
        steps=len(rest),
        warm_up=early + start,
        spread=_TO_SIGMA * float(np.median(np.abs(rest - middle))),
        source=source,
        notes=notes,
    )


def settled(seconds: Sequence[float]) -> tuple[float, ...]:
    """Return the steps after the warm-up: the time of a run for `compare`, as for `tune`.

    All of them where no step time is steady: runs that drift can be compared, if not ranked.
    """
    known = tuple(step_s for step_s in seconds if 0 < step_s < math.inf)
    window = steady(known, "")
    return known if isinstance(window, Unknown) else known[window.warm_up :]


def _begin(logs: Logs, starts: list[int]) -> tuple[int, tuple[str, ...] | Unknown]:
    """Return the first steady step, with notes, or Unknown with the reason why there is none."""
    last, length = starts[-1], len(logs) - starts[-1]
    if length >= ENOUGH:
        return last, ()
    if len(logs) < _SHORT:
        if last:
            return last, (f"only {length} steps after the last change of pace, at step {last}",)
        skip = _SKIP if length >= _SKIP + FEWEST else math.ceil(_SKIP_SHARE * length)
        return skip, (f"a short run: the first {skip} steps are excluded by rule, not by evidence",)
    change = float(np.median(logs[last:]) - np.median(logs[starts[-2] : last]))
    pace = f"its last {length} steps are {abs(math.expm1(change)):.1%} "
    pace += "slower" if change > 0 else "faster"
    if abs(change) < _LATE and 2 * length <= last - starts[-2]:
        return starts[-2], (f"{pace} than those before",)
    return last, Unknown(f"it did not settle: {pace} than those before")


def _levels(logs: Logs) -> list[int]:
    """Return the starts of the levels: 0, and each significant change."""
    if len(logs) < 2 * FEWEST:
        return [0]
    smooth, sigma = _without_spikes(logs)
    price = _PRICE * math.log(len(logs)) * max(sigma, _QUIET) ** 2
    return _merged(smooth, _edges(smooth, FEWEST, price))


def _edges(values: Logs, fewest: int, price: float) -> list[int]:
    """Return 0, the change points and the end, of the best piecewise constant fit.

    Each change has its price in squared residuals, and each level `fewest` steps or more. The best
    fit of the first steps is found for each number of them, from those of fewer.
    """
    count, values = len(values), values - np.mean(values)
    sums, squares = (np.concatenate([[0.0], np.cumsum(it)]) for it in (values, values**2))
    costs = np.full(count + 1, np.inf)
    costs[0] = -price
    begins = np.zeros(count + 1, dtype=int)
    for end in range(fewest, count + 1):
        begin = np.arange(end - fewest + 1)
        lasts = end - begin
        residuals = squares[end] - squares[begin] - (sums[end] - sums[begin]) ** 2 / lasts
        whole = costs[begin] + residuals + price
        best = int(np.argmin(whole))
        costs[end], begins[end] = whole[best], best
    edges = [count]
    while edges[0]:
        edges.insert(0, int(begins[edges[0]]))
    return edges


def _merged(smooth: Logs, edges: list[int]) -> list[int]:
    """Merge levels with a negligible difference, from the end, which is the part that counts."""
    starts = [edges[-2]]
    until = edges[-1]
    for begin, end in reversed(list(pairwise(edges[:-1]))):
        before, after = smooth[begin:end], smooth[starts[0] : until]
        apart = abs(float(np.median(after) - np.median(before)))
        if apart < max(_SAME, 2 * max(_scatter(before), _scatter(after))):
            starts[0] = begin
        else:
            until = starts[0]
            starts.insert(0, begin)
    return starts


def _scatter(level: Logs) -> float:
    return _TO_SIGMA * float(np.median(np.abs(level - np.median(level))))


def _without_spikes(logs: Logs) -> tuple[Logs, float]:
    """Return the steps with spikes clipped to their neighborhood, and sigma from step to step."""
    # The upper quartile: of steps of two kinds, half of the neighbors may be of one.
    sigma = float(np.quantile(np.abs(np.diff(logs)), 0.75)) / _QUARTILE / math.sqrt(2)
    around = np.array(
        [np.median(logs[max(at - _AROUND, 0) : at + _AROUND + 1]) for at in range(len(logs))]
    )
    reach = _SPIKE * max(sigma, _QUIET)
    return np.where(np.abs(logs - around) > reach, around, logs), sigma


def _settled(logs: Logs, start: int) -> int:
    """Return a later start if the last level converges: its second half is flat."""
    half = (start + len(logs)) // 2
    if len(logs) - half < ENOUGH or _slope(logs[start:]) is None:
        return start
    whole, rest = (abs(_theil_sen(logs[begin:])) for begin in (start, half))
    return half if rest < _ARRIVED * whole else start


def _drifting(logs: Logs, start: int) -> str | None:
    """Return why this is no steady state: a slope within the last level, or across the levels."""
    tail = min(max(_SKIP, math.ceil(_SKIP_SHARE * len(logs))), start)
    for begin in dict.fromkeys((start, tail)):
        part = logs[begin:]
        if len(part) < ENOUGH:
            continue
        slope = _slope(part)
        if slope is None:
            continue
        line = part - slope * np.arange(len(part))
        if begin < start and _scatter(line) > _BETTER * _scatter(_flat(part, start - begin)):
            continue  # levels, and no slope
        drift = math.expm1(abs(slope) * (len(part) - 1))
        way = "slower" if slope > 0 else "faster"
        return f"its steps never settled: over the last {len(part)} they became {drift:.1%} {way}"
    return None


def _flat(part: Logs, change: int) -> Logs:
    """Return the residuals of two levels after subtracting their medians."""
    first, second = part[:change], part[change:]
    return np.concatenate([first - np.median(first), second - np.median(second)])


def _slope(part: Logs) -> float | None:
    """Return the growth of the logarithm per step, if it is significant and large enough."""
    blocks = min(max(len(part) // 3, 5), 20)
    medians = np.array([np.median(block) for block in np.array_split(part, blocks)])
    if np.ptp(medians) == 0:
        return None
    p = float(_scipy_stats().kendalltau(np.arange(blocks), medians).pvalue)
    slope = _theil_sen(part)
    line = part - slope * np.arange(len(part))
    of_parts = np.array([np.median(block) for block in np.array_split(line, blocks)])
    least = max(_DRIFT, _scatter(line), _STRAIGHT * _scatter(of_parts))
    counts = abs(slope) * (len(part) - 1) / 2 > least
    return slope if counts and p < _UNLIKELY else None


def _theil_sen(part: Logs) -> float:
    each = -(-len(part) // _SLOPE_OF)
    return float(_scipy_stats().theilslopes(part[::each]).slope) / each


def _scipy_stats() -> Any:  # noqa: ANN401 - its types are partly known
    return import_module("scipy.stats")
