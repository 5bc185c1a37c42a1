"""Steps that differ: some are much longer than the others, or each is longer than the one before.

The median step hides them by design, whether one step in a hundred is slow or every second. The
lengths of the steps tell: those of the short ones lie close together, and between them and the
slow ones is a gap. What the slow ones lose is their excess over the short ones, spread over all
steps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import mean, median
from typing import Final

import polars as pl

from counterpoint.core.frozen import frozen
from counterpoint.diagnose.selection import PS_PER_MS, Selection
from counterpoint.diagnose.step_data import StepData

_FEWEST: Final = 5
"""Fewer steps do not tell what is usual."""

_SHORT: Final = 0.3
"""Least share of steps that are short: they show what a step takes without the trouble."""

_GAP_OF_STEP: Final = 0.05
_GAP_OF_SCATTER: Final = 1.5
"""The gap is at least this share of a short step, and of how far short steps lie apart."""

_GROWTH: Final = 0.2
"""Steps grow if the last third is longer than the first by this share."""

_ORDERED: Final = 0.9
"""Share of pairs of steps of which the later is longer, if steps grow."""


@frozen
class SlowSteps:
    """The slow ones of the steady steps, with their excess over a short step in milliseconds."""

    longer_ms: Mapping[int, float]
    short_ms: float  # median of the short ones
    mean_ms: float  # of all
    count: int  # of all
    period: int | None  # every so many steps one is slow

    @property
    def lost_ms(self) -> float:
        """What a step loses on average."""
        return sum(self.longer_ms.values()) / self.count


@frozen
class Growth:
    """Steps that grow: milliseconds that each is longer than the one before."""

    per_step_ms: float
    first_ms: float
    last_ms: float
    mean_ms: float


def slow_steps(data: StepData) -> SlowSteps | None:
    """Return the slow steps; None if there are none, or if one step was requested."""
    if data.selection.step is not None:
        return None
    lengths = step_lengths(data.selection)
    limit = _limit(sorted(lengths.values()))
    if limit is None or growth(data) is not None:
        return None
    short = median(ms for ms in lengths.values() if ms < limit)
    longer = {step: ms - short for step, ms in lengths.items() if ms >= limit}
    return SlowSteps(
        longer_ms=longer,
        short_ms=short,
        mean_ms=mean(lengths.values()),
        count=len(lengths),
        period=_period([*lengths], longer),
    )


def growth(data: StepData) -> Growth | None:
    """Return by how much steps grow, if nearly each is longer than those before it."""
    if data.selection.step is not None:
        return None
    lengths = [*step_lengths(data.selection).values()]
    if len(lengths) < _FEWEST:
        return None
    pairs = [(a, b) for i, a in enumerate(lengths) for b in lengths[i + 1 :]]
    third = max(1, len(lengths) // 3)
    first, last = median(lengths[:third]), median(lengths[-third:])
    if last < (1 + _GROWTH) * first or sum(b > a for a, b in pairs) < _ORDERED * len(pairs):
        return None
    slopes = sorted(
        (lengths[j] - lengths[i]) / (j - i)
        for i in range(len(lengths))
        for j in range(i + 1, len(lengths))
    )
    return Growth(median(slopes), lengths[0], lengths[-1], mean(lengths))


def step_lengths(selection: Selection) -> dict[int, float]:
    """Return the milliseconds of each steady step, in order, mean over devices."""
    lengths = (
        selection.timeline.steps.filter(
            pl.col("steady") & pl.col("device").is_in(selection.devices)
        )
        .group_by("step")
        .agg(ms=(pl.col("end_ps") - pl.col("start_ps")).mean() / PS_PER_MS)
        .sort("step")
    )
    return dict(lengths.iter_rows())


def _limit(lengths: Sequence[float]) -> float | None:
    """Return the length from which on a step is slow; `lengths` are sorted.

    The widest gap divides short from slow steps, if it is wide enough; then it is looked whether
    one among the short ones divides them, too: slow steps may be of several kinds.
    """
    fewest = max(2, round(_SHORT * len(lengths)))
    limit, short = None, lengths
    while len(short) > fewest and len(lengths) >= _FEWEST:
        gaps = [above - below for below, above in pairwise(short)]
        count = max(range(fewest, len(short)), key=lambda count: gaps[count - 1])
        near = short[:count]
        least = max(_GAP_OF_STEP * median(near), _GAP_OF_SCATTER * (near[-1] - near[0]))
        if gaps[count - 1] <= least:
            break
        limit, short = short[count], near
    return limit


def _period(steps: Sequence[int], slow: Collection[int]) -> int | None:
    """Return the distance of the slow steps if it is always the same, and none is missing."""
    apart = {later - earlier for earlier, later in pairwise(sorted(slow))}
    if len(apart) != 1:
        return None
    (period,) = apart
    expected = {step for step in steps if step % period == min(slow) % period}
    return period if period > 1 and expected == set(slow) else None


def all_of(data: StepData, steps: Collection[int]) -> StepData:
    """Return the data of these steady steps: times are of one of them, mean over devices."""
    selection = data.selection
    windows = (
        selection.timeline.steps.filter(
            pl.col("steady")
            & pl.col("step").is_in([*steps])
            & pl.col("device").is_in(selection.devices)
        )
        .select("step", "device", "start_ps", "end_ps")
        .sort("device", "start_ps")
    )
    lengths = step_lengths(selection)
    own = tuple(ms for step, ms in lengths.items() if step in steps)
    total = int((windows["end_ps"] - windows["start_ps"]).sum())
    scale = mean(own) / total if total else 0.0
    chosen = replace(selection, windows=windows, lengths_ms=own, scale=scale)
    return StepData(selection=chosen, context=data.context, stopwatch=data.stopwatch)
