"""How long a run's step takes: one figure for the run, from its undisturbed steps.

A step in which something was compiled, or which was being profiled, says nothing of the others.
Where the program counts no steps, those found in the profile stand in; they carry the profiler's
overhead, which runs that are compared share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low

from counterpoint.core.basis import Unknown
from counterpoint.core.errors import CounterpointError
from counterpoint.runs.bursts import BURSTS
from counterpoint.runs.run import Rank, Run, StepStart

_FEWEST = 3
_PS_PER_S = 1e12


@dataclass(frozen=True, slots=True)
class Score:
    """The median of undisturbed steps: one that was seen, the lower of two in the middle."""

    seconds: float
    steps: int
    source: str  # annotation, api, log or profile
    left_out: int  # steps with a compile or under the profiler
    each_s: tuple[float, ...] = ()  # those steps, in order
    disturbed: bool = False  # too few were left alone: of all but the first, where nothing compiled
    compiled: bool = False  # even then something was compiled in each, so these are all of those


def score(run: Run) -> Score | Unknown:
    """The median step time of a run."""
    return score_of_steps(run) or _of_profile(run)


def score_of_steps(run: Run) -> Score | None:
    """By steps that were seen while it ran; None where too few were."""
    found = slowest_rank(run)
    return None if found is None else found[1]


def slowest_rank(run: Run) -> tuple[Rank, Score] | None:
    """The rank whose steps are the run's: ranks go in lockstep, and a late one makes all late."""
    found = [(rank, it) for rank in run.ranks if (it := _of_rank(rank)) is not None]
    return max(found, key=lambda pair: pair[1].seconds, default=None)


def seen_steps(run: Run) -> Score | Unknown:
    """The same; of few steps all but the first, or the only one."""
    scored, rank = score_of_steps(run), run.timed
    if scored is not None:
        return scored
    if rank is None:
        bursts = any(it.steps_in_bursts for it in run.ranks)
        return Unknown(BURSTS if bursts else "no steps were seen")
    return _disturbed(rank)


def _of_rank(rank: Rank) -> Score | None:
    if not rank.step_seconds:
        return None
    quiet = undisturbed(rank.steps, disturbances(rank))
    if len(quiet) < _FEWEST:
        rest = _disturbed(rank)
        return None if rest.compiled or rest.steps < _FEWEST else rest
    left_out = len(rank.step_seconds) - len(quiet)
    return Score(median_low(quiet), len(quiet), rank.step_source or "log", left_out, quiet)


def _disturbed(rank: Rank) -> Score:
    """Of a rank that has few steps but those of the profile."""
    calm = undisturbed(rank.steps[1:], _compiles(rank))
    seconds = calm or tuple(rank.step_seconds[1:] or rank.step_seconds)
    left_out = len(rank.step_seconds) - len(seconds)
    source = rank.step_source or "log"
    compiled = not calm and not undisturbed(rank.steps, _compiles(rank))
    return Score(
        median_low(seconds),
        len(seconds),
        source,
        left_out,
        seconds,
        disturbed=True,
        compiled=compiled,
    )


def undisturbed(
    steps: Sequence[StepStart], disturbances: Iterable[tuple[float, float]]
) -> tuple[float, ...]:
    """Seconds of the steps during which nothing of that went on; the program's own, if known."""
    spans = tuple(disturbances)
    return tuple(
        after.seconds if after.seconds is not None else (after.start_s - before.start_s) / apart
        for before, after in pairwise(steps)
        if (apart := _apart(before, after)) > 0
        and not any(start < after.start_s and end > before.start_s for start, end in spans)
    )


def _apart(before: StepStart, after: StepStart) -> int:
    if before.step is None or after.step is None:
        return 1
    return after.step - before.step


def disturbances(rank: Rank) -> list[tuple[float, float]]:
    """Compiles, and the profile with the time it takes to write it."""
    found = _compiles(rank)
    for process in rank.processes:
        window = process.window
        if window is not None and window.opened_s is not None:
            closed_s = window.closed_s if window.closed_s is not None else float("inf")
            found.append((window.opened_s, closed_s))
    return found


def _compiles(rank: Rank) -> list[tuple[float, float]]:
    return [(it.at_s - it.seconds, it.at_s) for it in rank.compiles if it.at_s is not None]


def _of_profile(run: Run) -> Score | Unknown:
    if not run.profiles:
        return Unknown(f"no steps were seen, and there is no profile: {run.why_no_profile}")
    from counterpoint.timeline.read import read

    try:
        timeline = read(*map(str, run.profiles))
    except CounterpointError as error:
        return Unknown(error.what)
    lasts = (timeline.steps["end_ps"] - timeline.steps["start_ps"]) / _PS_PER_S
    steady = timeline.steps.with_columns(seconds=lasts).filter("steady")
    each = steady.group_by("step", maintain_order=True).mean()  # over devices
    seconds = each["seconds"].to_list()
    if len(seconds) < _FEWEST:
        seen = "1 whole step was" if len(seconds) == 1 else f"{len(seconds)} whole steps were"
        return Unknown(f"{seen} seen in the profile, which is too few for a median")
    left_out = timeline.steps["step"].n_unique() - len(seconds)
    return Score(median_low(seconds), len(seconds), "profile", left_out, tuple(seconds))
