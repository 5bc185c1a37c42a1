"""The step time of a run: one number, from its undisturbed steps.

Steps with a compile or under the profiler are not representative. If the program counts no steps,
those found in the profile are used; they include the profiler's overhead, which all compared runs
share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median, stdev
from typing import Final

from counterpoint.core import CounterpointError, Unknown
from counterpoint.runs.run import BURSTS, Rank, Run, StepStart, steps_apart

__all__ = [
    "CONFIDENCE",
    "NEGLIGIBLE_CHANGE",
    "RUN_TO_RUN_NOISE",
    "Score",
    "assumed_noise",
    "disturbances",
    "median_error",
    "profiled_steps",
    "score",
    "score_of_steps",
    "seen_steps",
    "slowest_rank",
    "student_t",
    "undisturbed",
]


_FEWEST = 3
_PS_PER_S = 1e12


@dataclass(frozen=True, slots=True)
class Score:
    """The median of undisturbed steps, an actual value: the lower of two in the middle."""

    seconds: float
    steps: int  # behind it, which are more than `each_s` if only every tenth was printed
    source: str  # annotation, api, log or profile
    left_out: int  # steps with a compile or under the profiler
    each_s: tuple[float, ...] = ()  # those steps, in order
    disturbed: bool = False  # too few undisturbed: of all but the first, where nothing compiled
    compiled: bool = False  # something was compiled in each of those, so these are all of them


def score(run: Run) -> Score | Unknown:
    """Return the median step time of a run."""
    return score_of_steps(run) or _of_profile(run)


def score_of_steps(run: Run) -> Score | None:
    """Return the score of steps seen while it ran; None if there are too few."""
    slowest = slowest_rank(run)
    return None if slowest is None else slowest[1]


def slowest_rank(run: Run) -> tuple[Rank, Score] | None:
    """Return the slowest rank: ranks go in lockstep, and a late one delays all."""
    scores = [
        (rank, rank_score) for rank in run.ranks if (rank_score := _of_rank(rank)) is not None
    ]
    return max(scores, key=lambda pair: pair[1].seconds, default=None)


def seen_steps(run: Run) -> Score | Unknown:
    """Return the score of seen steps; with few steps, of all but the first, or of the only one."""
    scored, rank = score_of_steps(run), run.timed
    if scored is not None:
        return scored
    if rank is None:
        bursts = any(each.steps_in_bursts for each in run.ranks)
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
    count = _count(rank.steps, disturbances(rank))
    return Score(median(quiet), count, rank.step_source or "log", left_out, quiet)


def _disturbed(rank: Rank) -> Score:
    """Return the score of a rank with few steps outside the profile."""
    compiles = _compiles(rank)
    calm = undisturbed(rank.steps[1:], compiles)
    seconds = calm or tuple(rank.step_seconds[1:] or rank.step_seconds)
    left_out = len(rank.step_seconds) - len(seconds)
    source = rank.step_source or "log"
    compiled = not calm and not undisturbed(rank.steps, compiles)
    return Score(
        median(seconds),
        max(len(seconds), _count(rank.steps[1:], compiles if calm else ())),
        source,
        left_out,
        seconds,
        disturbed=True,
        compiled=compiled,
    )


def undisturbed(
    steps: Sequence[StepStart], disturbances: Iterable[tuple[float, float]]
) -> tuple[float, ...]:
    """Return seconds of the steps that overlap no disturbance; the program's own, if known."""
    return tuple(
        after.seconds
        if after.seconds is not None
        else (after.start_s - before.start_s) / steps_apart(before, after)
        for before, after in _between(steps, disturbances)
    )


def _count(steps: Sequence[StepStart], disturbances: Iterable[tuple[float, float]]) -> int:
    """Return the number of steps behind `undisturbed`; a duration may be the mean of ten."""
    return sum(
        steps_apart(before, after) if after.seconds is None else 1
        for before, after in _between(steps, disturbances)
    )


def _between(
    steps: Sequence[StepStart], disturbances: Iterable[tuple[float, float]]
) -> Iterator[tuple[StepStart, StepStart]]:
    """Yield each two successive starts between which there is no disturbance.

    Lines that came together tell no time between them, but for the one that they print themselves.
    """
    spans = tuple(disturbances)
    for before, after in pairwise(steps):
        if (
            steps_apart(before, after) > 0
            and (after.seconds is not None or after.start_s > before.start_s)
            and not any(start < after.start_s and end > before.start_s for start, end in spans)
        ):
            yield before, after


def disturbances(rank: Rank) -> list[tuple[float, float]]:
    """Return the intervals of compiles, and of the profile until it is written."""
    intervals = _compiles(rank)
    for process in rank.processes:
        window = process.window
        if window is not None and window.opened_s is not None:
            closed_s = window.closed_s if window.closed_s is not None else float("inf")
            intervals.append((window.opened_s, closed_s))
    return intervals


def _compiles(rank: Rank) -> list[tuple[float, float]]:
    return [
        (compiled.at_s - compiled.seconds, compiled.at_s)
        for compiled in rank.compiles
        if compiled.at_s is not None
    ]


def _of_profile(run: Run) -> Score | Unknown:
    if not run.profiles:
        return Unknown(f"no steps were seen, and there is no profile: {run.why_no_profile}")
    from counterpoint.timeline.reading import read

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
    return Score(median(seconds), len(seconds), "profile", left_out, tuple(seconds))


CONFIDENCE: Final = 0.95
NEGLIGIBLE_CHANGE: Final = 0.005
"""A change within this share of the step, either way, counts as none (rule of thumb)."""
RUN_TO_RUN_NOISE: Final = 0.013
"""Observed difference between identical runs of a well-run job (rule of thumb)."""
_TO_SPREAD: Final = 1.4826  # from a median deviation to a normal distribution's sigma
_BLOCKS: Final = 4
_BLOCK: Final = 4  # minimum number of steps, if there are enough


def student_t(freedom: int, comparisons: int = 1, confidence: float = CONFIDENCE) -> float:
    """Return Student's t for a two-sided interval, shared by this many comparisons."""
    from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs]

    return float(stdtrit(freedom, 1 - (1 - confidence) / 2 / max(comparisons, 1)))


def assumed_noise(a: Sequence[float], b: Sequence[float]) -> float:
    """Return how much the logarithms of two medians may differ by chance (95%).

    `a` and `b` are the steps of one run each. Their scatter and drift are taken as if between runs,
    combined in quadrature with the difference between the quietest runs.

    Steps of one run can't tell how much runs differ. But a machine whose steps scatter or drift is
    shared or throttled, and another run finds it in another state: so runs are assumed to differ by
    at least as much as the steps of one run do.
    """
    spreads = [spread(steps) for steps in (a, b)]
    freedom = sum(len(_blocks(steps)) - 1 for steps in (a, b))
    if freedom < 2:
        return math.inf
    of_runs = student_t(freedom) * math.sqrt(2) * max(spreads)
    return math.hypot(of_runs, RUN_TO_RUN_NOISE)


def spread(steps: Sequence[float]) -> float:
    """Return sigma of a run's steps as a share: step to step, or of long blocks if that is more.

    Outliers do not affect the first, and slow drift fully affects the second.
    """
    logs = [math.log(value) for value in steps]
    middle = median(logs)
    scatter = _TO_SPREAD * median(abs(value - middle) for value in logs)
    blocks = [median(block) for block in _blocks(logs)]
    return max(scatter, stdev(blocks) if len(blocks) > 1 else 0.0)


def median_error(steps: Sequence[float]) -> float:
    """Return sigma of the median of a run's steps, as a share: by the medians of long blocks.

    Steps that change between two paces have no sure median, however near two runs' medians are.
    """
    blocks = [median(block) for block in _blocks([math.log(value) for value in steps])]
    return stdev(blocks) / math.sqrt(len(blocks)) if len(blocks) > 1 else 0.0


def _blocks(steps: Sequence[float]) -> list[Sequence[float]]:
    count = min(max(len(steps) // _BLOCK, 2), _BLOCKS, len(steps))
    edges = [len(steps) * at // count for at in range(count + 1)]
    return [steps[low:high] for low, high in pairwise(edges)]


def profiled_steps(rank: Rank) -> tuple[tuple[float, ...], int]:
    """Return the seconds of steps that began and ended while the profile was open, and their count.

    A duration is the mean of ten if only every tenth step is printed.
    """
    window = rank.window
    if window is None or window.opened_s is None or rank.steps_in_bursts:
        return (), 0
    closed_s = window.closed_s if window.closed_s is not None else math.inf
    around = [(-math.inf, window.opened_s), (closed_s, math.inf)]
    return undisturbed(rank.steps, around), _count(rank.steps, around)
