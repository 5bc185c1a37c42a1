"""What the steps of a run took, without those that were disturbed: compiled in, or profiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from counterpoint.core.basis import Unknown
from counterpoint.runs import Rank, Run, StepStart
from counterpoint.runs.bursts import BURSTS
from counterpoint.runs.score import disturbances, score, undisturbed
from counterpoint.tune.trial.steady import FEWEST

NONE_SEEN: Final = "no steps were seen"


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds in order, how steps were seen, and what has to be said of them."""

    seconds: tuple[float, ...]
    source: str
    notes: tuple[str, ...] = ()


def step_times(run: Run) -> StepTimes | Unknown:
    """Those of the slowest rank: ranks go in lockstep, and one that is late makes all of them late.

    Where no steps were seen while it ran, those of its profile, if there is one.
    """
    found = [it for rank in run.ranks if (it := _of_rank(rank)).seconds]
    if found:
        return max(found, key=lambda it: median(it.seconds))
    if any(rank.steps_in_bursts for rank in run.ranks):
        return Unknown(BURSTS)
    if not run.profiles:
        return Unknown(NONE_SEEN)
    scored = score(run)
    return scored if isinstance(scored, Unknown) else StepTimes(scored.each_s, scored.source)


def _of_rank(rank: Rank) -> StepTimes:
    source = rank.step_source or "log"
    if not rank.steps or rank.steps_in_bursts:
        return StepTimes((), source)
    spans = disturbances(rank)
    own = _own(rank.steps, spans)
    seconds = undisturbed(rank.steps, spans) if own is None else own
    if len(seconds) >= FEWEST or len(rank.step_seconds) <= FEWEST:
        return StepTimes(seconds, source)
    disturbed = "most steps had something compiled in them, or were profiled: all are counted"
    return StepTimes(rank.step_seconds[1:], source, (disturbed,))


def _own(
    steps: Sequence[StepStart], spans: Sequence[tuple[float, float]]
) -> tuple[float, ...] | None:
    """The program's own figures, where it tells them: its lines come when a step has ended."""
    if any(step.seconds is None for step in steps):
        return None
    return tuple(
        after.seconds
        for before, after in pairwise(steps)
        if after.seconds is not None
        and not any(start < after.start_s and end > before.start_s for start, end in spans)
    )
