"""Many devices folded into one lane: how much of each class, and between which limits they vary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from counterpoint.core.columns import Intervals, union
from counterpoint.core.frozen import frozen
from counterpoint.view.lanes import COMPUTE, HIDDEN, SUMMARY
from counterpoint.view.segments import BASE, Longs, Segments

_FEWEST_BUCKETS: Final = 8192
_MOST_BUCKETS: Final = 131072
_CELLS: Final = 1 << 23
"""Buckets times devices of the finest level, at most, except of very many devices."""
_FEWEST: Final = 128
_NARROWEST: Final = 1000


@frozen(eq=False, kw_only=True)
class FoldLevel:
    """Buckets of one width in which any device does something.

    `times` has the time of each class, summed over the devices, and `busy` the least, the median
    and the most time that single devices compute.
    """

    width: int
    start: Longs
    times: Longs
    busy: Longs


def folded(summaries: Sequence[Segments], end: int) -> list[FoldLevel]:
    """Return the levels of a fold, the finest first."""
    most = min(max(_CELLS // len(summaries), _FEWEST_BUCKETS), _MOST_BUCKETS)
    busy = union(
        np.concatenate([each.start for each in summaries]),
        np.concatenate([each.end for each in summaries]),
    )
    width = _NARROWEST
    while _touched(busy, width) > most:
        width *= BASE
    found: list[FoldLevel] = []
    while not found or (width < end and len(found[-1].start) > _FEWEST):
        found.append(_level(summaries, _buckets(busy, width), width))
        width *= BASE
    return found


def _touched(busy: Intervals, width: int) -> int:
    """Return the number of buckets that intervals touch; neighbors may share one."""
    first, last = busy.start // width, (busy.end - 1) // width
    return int((last - first + 1).sum() - (first[1:] == last[:-1]).sum())


def _buckets(busy: Intervals, width: int) -> Longs:
    """Return the starts of the buckets that intervals touch."""
    first, last = busy.start // width, (busy.end - 1) // width
    count = last - first + 1
    before = np.repeat(np.cumsum(count) - count, count)
    return np.unique(np.repeat(first, count) + np.arange(int(count.sum())) - before) * width


def _level(summaries: Sequence[Segments], start: Longs, width: int) -> FoldLevel:
    times = np.zeros((len(SUMMARY), len(start)), np.int64)
    busy = np.empty((len(summaries), len(start)), np.int64)
    for device, summary in enumerate(summaries):
        own = _until(summary, start + width) - _until(summary, start)
        times += own
        busy[device] = own[COMPUTE] + own[HIDDEN]
    limits = np.stack([busy.min(axis=0), np.median(busy, axis=0), busy.max(axis=0)])
    return FoldLevel(width=width, start=start, times=times, busy=limits.astype(np.int64))


def _until(summary: Segments, at: Longs) -> Longs:
    """Return the time of each class before each moment."""
    if not len(summary):
        return np.zeros((len(SUMMARY), len(at)), np.int64)
    before = np.concatenate(
        [np.zeros((len(SUMMARY), 1), np.int64), np.cumsum(summary.times, axis=1)], axis=1
    )
    last = np.searchsorted(summary.start, at, side="right") - 1
    known = np.maximum(last, 0)
    inside = np.clip(at - summary.start[known], 0, summary.end[known] - summary.start[known])
    partial = np.where(summary.times[:, known] > 0, inside, 0)
    return np.where(last < 0, 0, before[:, known] + partial)
