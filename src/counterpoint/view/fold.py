"""The fold of many devices into one row: when any of them does something, at all levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from counterpoint.core.columns import Intervals, union
from counterpoint.view.lanes import CLASSES, COMPUTE, HIDDEN, SUMMARY
from counterpoint.view.levels import LevelColumns
from counterpoint.view.segments import BASE, Longs, Segments

_FEWEST_BUCKETS: Final = 8192
_MOST_BUCKETS: Final = 131072
_CELLS: Final = 1 << 23
"""Buckets times devices of the finest level, at most, except of very many devices."""
_FEWEST: Final = 128
_NARROWEST: Final = 1000


def folded(summaries: Sequence[Segments], end: int) -> list[LevelColumns]:
    """Return the levels of a fold, the finest first: buckets in which any device does something.

    Each has the time of each class, summed over the devices, and the least, the median and the most
    time that single devices compute.
    """
    most = min(max(_CELLS // len(summaries), _FEWEST_BUCKETS), _MOST_BUCKETS)
    busy = union(
        np.concatenate([each.start for each in summaries]),
        np.concatenate([each.end for each in summaries]),
    )
    width = _NARROWEST
    while _touched(busy, width) > most:
        width *= BASE
    start = _buckets(busy, width)
    borders = np.stack([start, start + width])
    times = np.stack([np.diff(_until(each, borders), axis=1)[:, 0] for each in summaries])
    levels = [_level(times, start, width)]
    while width < end and len(start) > _FEWEST:
        width *= BASE
        first = np.flatnonzero(np.diff(start // width, prepend=-1))
        start, times = start[first] // width * width, np.add.reduceat(times, first, axis=2)
        levels.append(_level(times, start, width))
    return levels


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


def _level(times: Longs, start: Longs, width: int) -> LevelColumns:
    """Return a level from the time of each class (second) by device (first) and bucket (third)."""
    busy = times[:, COMPUTE] + times[:, HIDDEN]
    columns = {
        "start": start,
        "dur": np.full(len(start), width),
        "row": np.zeros(len(start), np.int64),
        **{CLASSES[each]: times[:, at].sum(axis=0) for at, each in enumerate(SUMMARY)},
        "busy_min": busy.min(axis=0),
        "busy_median": np.median(busy, axis=0).astype(np.int64),
        "busy_max": busy.max(axis=0),
    }
    return LevelColumns(width=width, columns=columns)


def _until(summary: Segments, at: Longs) -> Longs:
    """Return the time of each class before each moment."""
    if not len(summary):
        return np.zeros((len(SUMMARY), *at.shape), np.int64)
    before = np.concatenate(
        [np.zeros((len(SUMMARY), 1), np.int64), np.cumsum(summary.times, axis=1)], axis=1
    )
    last = np.searchsorted(summary.start, at, side="right") - 1
    known = np.maximum(last, 0)
    inside = np.clip(at - summary.start[known], 0, summary.end[known] - summary.start[known])
    partial = np.where(summary.times[:, known] > 0, inside, 0)
    return np.where(last < 0, 0, before[:, known] + partial)
