"""Comparison of the step times of runs without and with a change, in pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev

from counterpoint.core import Range, Unknown
from counterpoint.runs.scores import NEGLIGIBLE_CHANGE, RUN_TO_RUN_NOISE, student_t


class SpeedVerdict(StrEnum):
    """The conclusion of a comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference"
    OPEN = "not decided"


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Median step times of runs without and with a change, in pairs."""

    without_s: tuple[float, ...]
    with_s: tuple[float, ...]
    change: float  # of the step time: -0.03 is 3% faster
    range: Range | Unknown
    verdict: SpeedVerdict

    @property
    def decided(self) -> bool:
        """True if the runs show a difference, or that there is none."""
        return self.verdict is not SpeedVerdict.OPEN


def compare_runs(without_s: Sequence[float], with_s: Sequence[float]) -> RunComparison | Unknown:
    """Compare paired runs by their median step times.

    The unit is the run, never the step: steps of one run share its compile, its placement and its
    neighbors, so tests on steps mistake noise for a gain most of the time. Runs are paired in the
    order in which they ran, and the range comes from the paired log ratios.
    """
    if not without_s or len(without_s) != len(with_s):
        return Unknown(
            f"{len(without_s)} runs without and {len(with_s)} with the change have step times, "
            "so they can't be paired"
        )
    logs = [math.log(b / a) for a, b in zip(without_s, with_s, strict=True)]
    change = math.expm1(fmean(logs))
    reach = _reach(logs)
    return RunComparison(tuple(without_s), tuple(with_s), change, reach, _verdict(reach))


def _reach(logs: Sequence[float]) -> Range | Unknown:
    if len(logs) < 2:
        return Unknown(
            "one pair of runs has no range; identical runs have been seen to differ by "
            f"{RUN_TO_RUN_NOISE:.1%} (rule of thumb)"
        )
    half = student_t(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    middle = fmean(logs)
    return Range(math.expm1(middle - half), math.expm1(middle + half))


def _verdict(reach: Range | Unknown) -> SpeedVerdict:
    if isinstance(reach, Unknown):
        return SpeedVerdict.OPEN
    if reach.high < 0:
        return SpeedVerdict.FASTER
    if reach.low > 0:
        return SpeedVerdict.SLOWER
    if reach.low >= -NEGLIGIBLE_CHANGE and reach.high <= NEGLIGIBLE_CHANGE:
        return SpeedVerdict.SAME
    return SpeedVerdict.OPEN


def abba_order(pairs: int) -> tuple[bool, ...]:
    """Return the order of runs without (False) and with (True) the change: ABBA.

    A drift of the machine then affects both equally.
    """
    return tuple(turn for pair in range(pairs) for turn in ((False, True), (True, False))[pair % 2])
