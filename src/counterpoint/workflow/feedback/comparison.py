"""Whether runs with a change are faster than runs without, and how sure that is.

The unit is the run, never the step: steps of one run share its compile, its placement and its
neighbours, so tests on steps call noise a win most of the time. Runs are paired in the order in
which they ran, and the range comes from the paired log ratios.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev

from counterpoint.core.basis import Range, Unknown
from counterpoint.runs.noise import INDIFFERENT, RUNS_DIFFER, student


class Verdict(StrEnum):
    """What may be said of a comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference"
    OPEN = "not decided"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Median step times of runs without and with a change, in pairs."""

    without_s: tuple[float, ...]
    with_s: tuple[float, ...]
    change: float  # of the step time: -0.03 is 3 % faster
    range: Range | Unknown
    verdict: Verdict


def compare_runs(without_s: Sequence[float], with_s: Sequence[float]) -> Comparison | Unknown:
    """Compare paired runs by their median step times."""
    if not without_s or len(without_s) != len(with_s):
        return Unknown(
            f"{len(without_s)} runs without and {len(with_s)} with the change gave step times, "
            "which makes no pairs"
        )
    logs = [math.log(b / a) for a, b in zip(without_s, with_s, strict=True)]
    change = math.expm1(fmean(logs))
    reach = _reach(logs)
    return Comparison(tuple(without_s), tuple(with_s), change, reach, _verdict(reach))


def _reach(logs: Sequence[float]) -> Range | Unknown:
    if len(logs) < 2:
        return Unknown(
            "one pair of runs has no range; identical runs have been seen to differ by "
            f"{RUNS_DIFFER:.1%} (rule of thumb)"
        )
    half = student(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    middle = fmean(logs)
    return Range(math.expm1(middle - half), math.expm1(middle + half))


def _verdict(reach: Range | Unknown) -> Verdict:
    if isinstance(reach, Unknown):
        return Verdict.OPEN
    if reach.high < 0:
        return Verdict.FASTER
    if reach.low > 0:
        return Verdict.SLOWER
    if reach.low >= -INDIFFERENT and reach.high <= INDIFFERENT:
        return Verdict.SAME
    return Verdict.OPEN


def order(pairs: int) -> tuple[bool, ...]:
    """In which order runs without (False) and with (True) the change are made: ABBA.

    A drift of the machine then falls on both alike.
    """
    return tuple(turn for pair in range(pairs) for turn in ((False, True), (True, False))[pair % 2])
