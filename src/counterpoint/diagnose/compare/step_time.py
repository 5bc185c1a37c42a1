"""How much longer a step of B is than one of A, and whether that is more than noise.

The unit is the run. Where a side is one run, its steps tell how well its own median is known, by a
moving-block bootstrap that respects that a slow step has slow neighbours. How much identical runs
differ is assumed from how much the steps scatter and drift (`runs/noise.py`), and added in
quadrature. Where sides have several runs, their medians tell both: Student's t on their logarithms,
with one spread for both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median_low
from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoint.core import Basis, Range, Unknown
from counterpoint.runs.scores import CONFIDENCE, INDIFFERENT, RUNS_DIFFER, assumed, student

PREDICTIONS_TIE: Final = 0.015
"""Predictions of two settings that are closer than this are not told apart (rule of thumb)."""
SHARED: Final = "one run of a noisy machine decides nothing: give several runs per side"
_FEWEST: Final = 3
_DRAWS: Final = 2000
_AT_ONCE: Final = 2_000_000  # steps that are drawn at a time, for the memory's sake
_MOST: Final = 10_000  # steps; of more, so many in the middle tell the same


class Verdict(StrEnum):
    """What may be said of B against A."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference"
    WITHIN = "within what two identical runs differ by"
    TIED = "tied: predictions so close are not told apart"
    OPEN = "not decided"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The steps of one run, in order, and who counted them."""

    each_s: tuple[float, ...]
    source: str  # annotation, api, log, profile, or prediction
    basis: Basis
    on_host: bool = False  # virtual devices, which share the host's processors with all else
    range_s: Range | None = None  # of a prediction, by its model
    target: str = ""  # of a prediction: what it was made for

    @property
    def median_s(self) -> float:
        return median_low(self.each_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChange:
    """The step of B against that of A: `change` is -0.03 where B is 3 % faster.

    `range` holds the truth with 95 %, run-to-run noise included; `of_steps` is what the steps of
    single runs tell of their medians, without it. `runs_differ` is by how much two identical runs
    are taken to differ: 0.0 of predictions, infinite where nothing tells it.
    """

    a_s: float
    b_s: float
    change: float
    range: Range | Unknown
    of_steps: Range | Unknown
    verdict: Verdict
    how: str
    runs_differ: float = RUNS_DIFFER


def step_change(a: Sequence[StepTimes], b: Sequence[StepTimes]) -> StepChange | Unknown:
    """Compare runs by their median steps; Unknown where a side has none."""
    for name, side in (("A", a), ("B", b)):
        if not side:
            return Unknown(f"no step time is known of {name}")
    logs = [[math.log(it.median_s) for it in side] for side in (a, b)]
    moved = fmean(logs[1]) - fmean(logs[0])
    kinds = {it.basis for it in (*a, *b)}
    if len(kinds) > 1:
        reach, steps, how = _mixed()
    elif kinds == {Basis.PREDICTED}:
        reach, steps, how = _predicted(a, b, moved)
    elif len(a) + len(b) > 2:
        reach, how = _of_runs(logs[0], logs[1])
        steps: Range | Unknown = Unknown("several runs tell more than the steps of one")
    else:
        reach, steps, how = _of_steps(a[0], b[0], moved)
    return StepChange(
        a_s=math.exp(fmean(logs[0])),
        b_s=math.exp(fmean(logs[1])),
        change=math.expm1(moved),
        range=reach,
        of_steps=steps,
        verdict=_verdict(
            math.expm1(moved),
            reach,
            kinds,
            alone=len(a) + len(b) == 2,
            one_target=_one_target(a, b),
        ),
        how=how,
        runs_differ=0.0 if Basis.MEASURED not in kinds else _runs_differ(a, b, logs),
    )


def _runs_differ(
    a: Sequence[StepTimes], b: Sequence[StepTimes], logs: Sequence[Sequence[float]]
) -> float:
    """What two single runs may differ by, as several tell it, or else the steps of one."""
    if len(a) + len(b) > 2:
        _, spread, freedom = _spread_of(*logs)
        return max(student(freedom) * math.sqrt(2) * spread, RUNS_DIFFER)
    measured = [it.each_s for it in (*a, *b) if it.basis is Basis.MEASURED]
    return assumed(measured[0], measured[-1])


_Told = tuple[Range | Unknown, Range | Unknown, str]


def _mixed() -> _Told:
    unknown = Unknown(
        "one side is measured and one predicted: the difference holds the model's error, too"
    )
    return unknown, unknown, "measured against predicted: no range"


def _predicted(a: Sequence[StepTimes], b: Sequence[StepTimes], moved: float) -> _Told:
    """Errors of one model cancel on one chip alone."""
    none = Unknown("a predicted step is one step")
    if _one_target(a, b):
        how = "two predictions for one target"
        how = f"{how}; those within {PREDICTIONS_TIE:.1%} are not told apart (rule of thumb)"
        return _around(moved, PREDICTIONS_TIE), none, how
    how = "predictions for different targets: the errors of the two do not cancel"
    ranges = [side[0].range_s for side in (a, b)]
    if len(a) + len(b) > 2 or any(it is None or it.low <= 0 for it in ranges):
        return Unknown(f"{how}, and the ranges of both are not known"), none, how
    (a_low, a_high), (b_low, b_high) = (
        [math.log(it / side[0].median_s) for it in (reach.low, reach.high)]
        for reach, side in zip(ranges, (a, b), strict=True)
        if reach is not None
    )
    down, up = math.hypot(b_low, a_high), math.hypot(b_high, a_low)
    reach = Range(math.expm1(moved - down), math.expm1(moved + up))
    return reach, none, f"{how}; the ranges of both, as independent ones"


def _one_target(a: Sequence[StepTimes], b: Sequence[StepTimes]) -> bool:
    return len({it.target for it in (*a, *b)}) == 1


def _of_runs(a: Sequence[float], b: Sequence[float]) -> tuple[Range, str]:
    moved, spread, freedom = _spread_of(a, b)
    error = spread * math.sqrt(1 / len(a) + 1 / len(b))
    how = f"95 %, by Student's t on the logarithms of the medians of {len(a)} and {len(b)} runs"
    return _around(moved, student(freedom) * error), how


def _spread_of(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, int]:
    """How far the sides are apart, sigma within them, and its degrees of freedom."""
    freedom = len(a) + len(b) - 2
    squares = sum((it - fmean(side)) ** 2 for side in (a, b) for it in side)
    return fmean(b) - fmean(a), math.sqrt(squares / freedom), freedom


def _of_steps(one: StepTimes, other: StepTimes, moved: float) -> _Told:
    """One run each: what the steps tell, widened by what runs differ by."""
    a, b = one.each_s, other.each_s
    added = f"identical runs have been seen to differ by {RUNS_DIFFER:.1%} (rule of thumb)"
    if a == b:
        return _around(0.0, 0.0), _around(0.0, 0.0), "the very same steps"
    if min(len(a), len(b)) < _FEWEST:
        least = min(len(a), len(b))
        few = Unknown(f"{least} step{' is' if least == 1 else 's are'} too few for a range")
        return few, few, f"one run each, and too few steps; {added}"
    chance = np.random.default_rng(0)
    drawn = _medians(_middle(b), chance) - _medians(_middle(a), chance)
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    low, high = min(float(low), moved), max(float(high), moved)
    of_steps = Range(math.expm1(low), math.expm1(high))
    seen = f"95 %, by {len(a)} and {len(b)} steps of one run each, which hold no run-to-run noise"
    if one.on_host or other.on_host:
        shared = f"virtual devices share the host's processors: {SHARED}"
        return Unknown(shared), of_steps, seen
    apart = assumed(a, b)
    down, up = math.hypot(moved - low, apart), math.hypot(high - moved, apart)
    if apart > 2 * RUNS_DIFFER:
        added = f"as they scatter and drift, identical runs may differ by {apart:.1%}; {SHARED}"
    elif apart > RUNS_DIFFER:
        added = f"{added}, {apart:.1%} as the steps scatter and drift here"
    return Range(math.expm1(moved - down), math.expm1(moved + up)), of_steps, f"{seen}; {added}"


def _medians(steps: Sequence[float], chance: np.random.Generator) -> NDArray[np.float64]:
    """Logarithms of medians of steps drawn anew in blocks, as long as the cube root of all."""
    values = np.log(np.asarray(steps, np.float64))
    long = max(round(len(values) ** (1 / 3)), 1)
    blocks = -(-len(values) // long)
    within = np.arange(long, dtype=np.int64)
    at_once = max(_AT_ONCE // len(values), 1)
    found: list[NDArray[np.float64]] = []
    for drawn in range(0, _DRAWS, at_once):
        draws = min(at_once, _DRAWS - drawn)
        firsts: NDArray[np.int64] = chance.integers(0, len(values), (draws, blocks, 1))
        at = (firsts + within).reshape((draws, blocks * long)) % len(values)
        found.append(np.median(values[at[:, : len(values)]], axis=1))
    return np.concatenate(found)


def _middle(steps: Sequence[float]) -> Sequence[float]:
    first = max(len(steps) - _MOST, 0) // 2
    return steps[first : first + _MOST]


def _around(middle: float, half: float) -> Range:
    return Range(math.expm1(middle - half), math.expm1(middle + half))


_NARROW = 2.4
"""A range that reaches further than so many times what runs differ by decides nothing: 3 %."""


def _verdict(
    change: float, reach: Range | Unknown, kinds: set[Basis], *, alone: bool, one_target: bool
) -> Verdict:
    if isinstance(reach, Unknown):
        return Verdict.OPEN
    if reach.low > 0:
        return Verdict.SLOWER
    if reach.high < 0:
        return Verdict.FASTER
    alike = reach.low >= -INDIFFERENT and reach.high <= INDIFFERENT
    if alike or (kinds == {Basis.PREDICTED} and change == 0):
        return Verdict.SAME
    if kinds == {Basis.PREDICTED}:
        return Verdict.TIED if one_target else Verdict.OPEN
    narrow = max(-reach.low, reach.high) <= _NARROW * RUNS_DIFFER
    return Verdict.WITHIN if alone and narrow and abs(change) <= RUNS_DIFFER else Verdict.OPEN
