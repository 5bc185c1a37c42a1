"""The difference between the steps of A and B, and whether it exceeds the noise.

The unit is the run. With one run on a side, its steps show how well its own median is known, by a
moving-block bootstrap that respects that a slow step has slow neighbors. How much identical runs
differ is assumed from how much the steps scatter and drift (`runs/scores.py`), and added in
quadrature. With several runs on a side, their medians show both: Student's t on their logarithms,
with one spread for both, and what a drift of the machine can add in the order of the runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoint.core import Basis, InputError, Range, Unknown
from counterpoint.diagnose.compare.order import RunOrder, order_of
from counterpoint.runs.scores import (
    CONFIDENCE,
    NEGLIGIBLE_CHANGE,
    RUN_TO_RUN_NOISE,
    assumed_noise,
    median_error,
    student_t,
)

PREDICTIONS_TIE: Final = 0.015
"""Predictions of two settings closer than this count as equal (rule of thumb)."""
SHARED: Final = "one run on a noisy machine is inconclusive; give several runs per side"
GATE_ALARMS: Final = 0.01
"""The share of equal pairs that may look slower to a gate, if the noise of runs is normal."""
HOST_RUNS_DIFFER: Final = 10.0
"""Runs on a shared host differ by less than this many times (rule of thumb)."""
_FEWEST: Final = 3
_DRAWS: Final = 2000
_AT_ONCE: Final = 2_000_000  # steps drawn at a time, to limit memory
_MOST: Final = 10_000  # maximum number of steps; of more, as many from the middle


class StepVerdict(StrEnum):
    """The conclusion about B relative to A."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference"
    WITHIN = "within what two identical runs differ by"
    TIED = "tied: predictions this close are equivalent"
    OPEN = "not decided"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RunSteps:
    """The steps of one run, in order, and where they come from."""

    each_s: tuple[float, ...]
    source: str  # annotation, api, log, profile, or prediction
    basis: Basis
    on_host: bool = False  # virtual devices, which share the host's processors with everything else
    range_s: Range | None = None  # of a prediction, by its model
    target: str = ""  # of a prediction: the machine it was made for
    started: float | None = None  # of a Run, in seconds: tells the order of the runs

    @property
    def median_s(self) -> float:
        return median(self.each_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChange:
    """The step of B relative to that of A: `change` is -0.03 if B is 3% faster.

    `range` contains the true value with 95% confidence, run-to-run noise included; `of_steps` is
    the range from the steps of single runs alone. `runs_differ` is the assumed difference of two
    identical runs: 0.0 for predictions, infinite if there is no estimate. `assumed`: no repeated
    run shows that difference, so `range` holds only where the assumption does. Equal pairs of
    several runs have `surely_above` over zero in about `GATE_ALARMS` of cases. `order` is theirs.
    """

    a_s: float
    b_s: float
    change: float
    range: Range | Unknown
    of_steps: Range | Unknown
    verdict: StepVerdict
    how: str
    runs_differ: float = RUN_TO_RUN_NOISE
    assumed: bool = False
    surely_above: float | None = None
    order: RunOrder | None = None

    def slower_by_more_than(self, limit: float, advice: str) -> bool:
        """Return whether B is slower by more than `limit` (0.02: 2%) and certainly slower at all.

        True if the likely change exceeds the limit, and noise or a drift of the machine would make
        equal runs look so in about one of a hundred pairs (`GATE_ALARMS`). The advice is for
        a range that is unknown.
        """
        if isinstance(self.range, Unknown):
            noise = f"the difference cannot be separated from noise: {self.range.reason}"
            raise InputError(noise, next=advice)
        surely = self.range.low if self.surely_above is None else self.surely_above
        return self.change > limit and surely > 0


def step_change(a: Sequence[RunSteps], b: Sequence[RunSteps]) -> StepChange | Unknown:
    """Compare runs by their median steps; Unknown if a side has none."""
    for name, side in (("A", a), ("B", b)):
        if not side:
            return Unknown(f"the step time of {name} is unknown")
    logs = [[math.log(times.median_s) for times in side] for side in (a, b)]
    moved = fmean(logs[1]) - fmean(logs[0])
    kinds = {times.basis for times in (*a, *b)}
    alone = len(a) + len(b) == 2
    surely, order = None, None
    if len(kinds) > 1:
        interval, steps, how = _mixed()
    elif kinds == {Basis.PREDICTED}:
        interval, steps, how = _predicted(a, b, moved)
    elif not alone:
        order = order_of([times.started for times in a], [times.started for times in b])
        errors = [median_error(times.each_s) for times in (*a, *b)]
        interval, surely, how = _of_runs(logs[0], logs[1], order, errors)
        steps: Range | Unknown = Unknown("not used: several runs are compared")
    else:
        interval, steps, how = _of_steps(a[0], b[0], moved)
    return StepChange(
        a_s=math.exp(fmean(logs[0])),
        b_s=math.exp(fmean(logs[1])),
        change=math.expm1(moved),
        range=interval,
        of_steps=steps,
        verdict=_verdict(
            math.expm1(moved),
            interval,
            kinds,
            alone=alone,
            one_target=_one_target(a, b),
        ),
        how=how,
        runs_differ=0.0 if Basis.MEASURED not in kinds else _runs_differ(a, b, logs),
        assumed=alone
        and kinds == {Basis.MEASURED}
        and isinstance(interval, Range)
        and a[0].each_s != b[0].each_s,
        surely_above=surely,
        order=order,
    )


def change_of_runs(
    a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], *, on_host: bool
) -> StepChange | Unknown:
    """Compare measured runs by the seconds of the steps of each; `on_host`: on virtual devices."""

    def side(runs: Sequence[Sequence[float]]) -> list[RunSteps]:
        return [RunSteps(tuple(steps), "profile", Basis.MEASURED, on_host) for steps in runs]

    return step_change(side(a), side(b))


def _runs_differ(
    a: Sequence[RunSteps], b: Sequence[RunSteps], logs: Sequence[Sequence[float]]
) -> float:
    """Return the possible difference of two single runs, from several runs or the steps of one."""
    if len(a) + len(b) > 2:
        _, spread, freedom = _spread_of(*logs)
        return max(student_t(freedom) * math.sqrt(2) * spread, RUN_TO_RUN_NOISE)
    measured = [times.each_s for times in (*a, *b) if times.basis is Basis.MEASURED]
    return assumed_noise(measured[0], measured[-1])


_Ranges = tuple[Range | Unknown, Range | Unknown, str]


def _mixed() -> _Ranges:
    unknown = Unknown(
        "one side is measured and one predicted: the difference includes the model's error"
    )
    return unknown, unknown, "measured against predicted: no range"


def _predicted(a: Sequence[RunSteps], b: Sequence[RunSteps], moved: float) -> _Ranges:
    """Compare predictions: the model's errors cancel only on the same chip."""
    none = Unknown("a predicted step is one step")
    if _one_target(a, b):
        how = "two predictions for one target"
        how = f"{how}; differences within {PREDICTIONS_TIE:.1%} are ties (rule of thumb)"
        return _around(moved, PREDICTIONS_TIE), none, how
    how = "predictions for different targets, whose errors do not cancel"
    ranges = [side[0].range_s for side in (a, b)]
    if len(a) + len(b) > 2 or any(interval is None or interval.low <= 0 for interval in ranges):
        return Unknown(f"{how}, and the ranges of both are unknown"), none, how
    (a_low, a_high), (b_low, b_high) = (
        [math.log(bound / side[0].median_s) for bound in (interval.low, interval.high)]
        for interval, side in zip(ranges, (a, b), strict=True)
        if interval is not None
    )
    down, up = math.hypot(b_low, a_high), math.hypot(b_high, a_low)
    interval = Range(math.expm1(moved - down), math.expm1(moved + up))
    return interval, none, f"{how}; combined from the ranges of both as independent errors"


def _one_target(a: Sequence[RunSteps], b: Sequence[RunSteps]) -> bool:
    return len({times.target for times in (*a, *b)}) == 1


def _of_runs(
    a: Sequence[float], b: Sequence[float], order: RunOrder | None, errors: Sequence[float]
) -> tuple[Range, float, str]:
    """Return the range, what the change surely exceeds, and how both were found.

    Few medians may agree by chance, so they are never taken to differ less than their own errors.
    """
    moved, spread, freedom = _spread_of(a, b)
    least = math.sqrt(fmean(error**2 for error in errors))
    scale = math.sqrt(1 / len(a) + 1 / len(b))
    error = max(spread, least) * scale
    reach = _gate_reach(error, freedom)
    how = f"95%, by Student's t on the logarithms of the medians of {len(a)} and {len(b)} runs"
    drift = 0.0
    if order is not None:
        drift = order.drift_added(a, b)
        how = f"{how}, in the order {order.text}"
        if drift:
            how = f"{how}: wider by {drift:.1%}, which a drift of the machine may add in this order"
        if freedom > 1 and not order.in_blocks:
            # A drift scatters the runs of both sides, too, and would hide a change from the gate.
            beside = math.sqrt(order.squares_beside_drift(a, b) / (freedom - 1))
            reach = min(reach, _gate_reach(max(beside, least) * scale, freedom - 1))
    surely = math.expm1(moved - reach - drift)
    return _around(moved, student_t(freedom) * error + drift), surely, how


def _gate_reach(error: float, freedom: int) -> float:
    """Return what a change must exceed to be surely one; the gate tests one side alone."""
    return student_t(freedom, confidence=1 - 2 * GATE_ALARMS) * error


def _spread_of(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, int]:
    """Return the distance between the sides, sigma within them, and its degrees of freedom."""
    freedom = len(a) + len(b) - 2
    squares = sum((value - fmean(side)) ** 2 for side in (a, b) for value in side)
    return fmean(b) - fmean(a), math.sqrt(squares / freedom), freedom


def _of_steps(first: RunSteps, second: RunSteps, moved: float) -> _Ranges:
    """Compare one run each: the range from the steps, widened by run-to-run differences."""
    a, b = first.each_s, second.each_s
    added = f"identical runs may differ by {RUN_TO_RUN_NOISE:.1%} (rule of thumb)"
    if a == b:
        return _around(0.0, 0.0), _around(0.0, 0.0), "identical steps"
    if min(len(a), len(b)) < _FEWEST:
        least = min(len(a), len(b))
        few = Unknown(f"{least} step{' is' if least == 1 else 's are'} too few for a range")
        return few, few, f"one run each, and too few steps; {added}"
    chance = np.random.default_rng(0)
    drawn = _medians(_middle(b), chance) - _medians(_middle(a), chance)
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    low, high = min(float(low), moved), max(float(high), moved)
    of_steps = Range(math.expm1(low), math.expm1(high))
    seen = f"by {len(a)} and {len(b)} steps of one run each"
    apart = assumed_noise(a, b)
    if first.on_host or second.on_host:
        reach = math.hypot(apart, math.log(HOST_RUNS_DIFFER), high - low)
        if abs(moved) <= reach:
            shared = f"virtual devices share the host's processors: {SHARED}"
            return Unknown(shared), of_steps, seen
        added = f"runs on a shared host differ by less than {HOST_RUNS_DIFFER:g} times"
        how = f"assumed, not measured: {added} (rule of thumb); {seen}"
        return _around(moved, reach), of_steps, how
    down, up = math.hypot(moved - low, apart), math.hypot(high - moved, apart)
    if apart > 2 * RUN_TO_RUN_NOISE:
        added = f"by their scatter and drift, identical runs may differ by {apart:.1%}; {SHARED}"
    elif apart > RUN_TO_RUN_NOISE:
        added = f"{added}, here by {apart:.1%} because of scatter and drift"
    interval = Range(math.expm1(moved - down), math.expm1(moved + up))
    return interval, of_steps, f"assumed, not measured: {added}; {seen}"


def _medians(steps: Sequence[float], chance: np.random.Generator) -> NDArray[np.float64]:
    """Return log medians of steps resampled in blocks as long as the cube root of their number."""
    values = np.log(np.asarray(steps, np.float64))
    block = max(round(len(values) ** (1 / 3)), 1)
    blocks = -(-len(values) // block)
    within = np.arange(block, dtype=np.int64)
    at_once = max(_AT_ONCE // len(values), 1)
    medians: list[NDArray[np.float64]] = []
    for drawn in range(0, _DRAWS, at_once):
        draws = min(at_once, _DRAWS - drawn)
        firsts: NDArray[np.int64] = chance.integers(0, len(values), (draws, blocks, 1))
        at = (firsts + within).reshape((draws, blocks * block)) % len(values)
        medians.append(np.median(values[at[:, : len(values)]], axis=1))
    return np.concatenate(medians)


def _middle(steps: Sequence[float]) -> Sequence[float]:
    first = max(len(steps) - _MOST, 0) // 2
    return steps[first : first + _MOST]


def _around(middle: float, half: float) -> Range:
    return Range(math.expm1(middle - half), math.expm1(middle + half))


_NARROW = 2.4
"""A range wider than this many times the difference between runs is inconclusive: 3%."""


def _verdict(
    change: float, reach: Range | Unknown, kinds: set[Basis], *, alone: bool, one_target: bool
) -> StepVerdict:
    if isinstance(reach, Unknown):
        return StepVerdict.OPEN
    if reach.low > 0:
        return StepVerdict.SLOWER
    if reach.high < 0:
        return StepVerdict.FASTER
    alike = reach.low >= -NEGLIGIBLE_CHANGE and reach.high <= NEGLIGIBLE_CHANGE
    if alike or (kinds == {Basis.PREDICTED} and change == 0):
        return StepVerdict.SAME
    if kinds == {Basis.PREDICTED}:
        return StepVerdict.TIED if one_target else StepVerdict.OPEN
    narrow = max(-reach.low, reach.high) <= _NARROW * RUN_TO_RUN_NOISE
    return (
        StepVerdict.WITHIN
        if alone and narrow and abs(change) <= RUN_TO_RUN_NOISE
        else StepVerdict.OPEN
    )
