"""Nesting of ranges on threads: which lies within which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

OUTSIDE: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Nesting:
    """Nested ranges on threads. `parent` is the range around each, OUTSIDE for the outermost.

    At `edge_time` on `edge_thread` (sorted by both) the innermost range becomes `edge_range`.
    """

    thread: Longs
    start: Longs
    end: Longs
    parent: Longs
    edge_thread: Longs
    edge_time: Longs
    edge_range: Longs

    def innermost(self, thread: Longs, time: Longs) -> Longs:
        """Return the innermost range around each moment, OUTSIDE if there is none.

        A range includes its start but not its end.
        """
        edges = len(self.edge_time)
        if not edges or not len(time):
            return np.full(len(time), OUTSIDE, np.int64)
        threads = np.concatenate([self.edge_thread, thread])
        times = np.concatenate([self.edge_time, time])
        is_query = np.arange(len(times)) >= edges
        order = np.lexsort((is_query, times, threads))
        is_edge = order < edges
        last = np.maximum.accumulate(np.where(is_edge, np.arange(len(order)), 0))
        edge = order[last]
        innermost = np.empty(len(times), np.int64)
        innermost[order] = np.where(
            edge < edges, self.edge_range[np.minimum(edge, edges - 1)], OUTSIDE
        )
        return self._checked(innermost[edges:], thread, time)

    def _checked(self, innermost: Longs, thread: Longs, time: Longs) -> Longs:
        """Discard ranges that cross instead of nesting, and ranges of other threads."""
        holds = (
            (innermost != OUTSIDE)
            & (self.thread[innermost] == thread)
            & (self.start[innermost] <= time)
            & (time < self.end[innermost])
        )
        return np.where(holds, innermost, OUTSIDE)


def nest(thread: Longs, start: Longs, end: Longs) -> Nesting:
    """Nest the ranges of nonzero length; rows keep their numbers.

    Vectorized for millions of ranges: over the starts and ends of all threads in order, the depth
    is a running sum, and a range's parent is the last earlier one that is one level higher.
    """
    rows = np.flatnonzero(end > start)
    rows = rows[np.lexsort((-end[rows], start[rows], thread[rows]))]
    count = len(rows)
    rank = np.arange(count)
    # At equal times ranges end before others start, and the longest starts first.
    edge_time = np.concatenate([start[rows], end[rows]])
    edge_thread = np.concatenate([thread[rows], thread[rows]])
    step = np.repeat(np.array([1, -1]), count)
    turn = np.concatenate([rank, -rank])
    order = np.lexsort((turn, step, edge_time, edge_thread))
    depth_at = np.empty(2 * count, np.int64)
    depth_at[order] = np.cumsum(step[order])
    above = _above(depth_at[:count])
    parent = np.full(len(start), OUTSIDE, np.int64)
    around = np.where(above != OUTSIDE, rows[above], OUTSIDE) if count else above
    inside = (
        ((around != OUTSIDE) & (thread[around] == thread[rows]) & (end[around] >= end[rows]))
        if count
        else np.zeros(0, bool)
    )
    parent[rows] = np.where(inside, around, OUTSIDE)
    edge_range = np.concatenate([rows, parent[rows]])
    return Nesting(
        thread, start, end, parent, edge_thread[order], edge_time[order], edge_range[order]
    )


def _above(depth: Longs) -> Longs:
    """Return, for ranges ordered by start, the last earlier one that is one level higher."""
    count = len(depth)
    if not count:
        return np.zeros(0, np.int64)
    key = depth * count + np.arange(count)
    keys = np.sort(key)
    at = np.searchsorted(keys, key - count) - 1
    last = keys[at]
    return np.where((at >= 0) & (last // count == depth - 1), last % count, OUTSIDE)


def nearest(parent: Longs, wanted: NDArray[np.bool_]) -> Longs:
    """Return each range itself if `wanted`, else its nearest wanted ancestor, else OUTSIDE."""
    count = len(parent)
    nowhere = count
    hop = np.append(
        np.where(wanted, np.arange(count), np.where(parent < 0, nowhere, parent)), nowhere
    )
    while True:
        further = hop[hop]
        if (further == hop).all():
            break
        hop = further
    ancestor = hop[:count]
    return np.where(ancestor == nowhere, OUTSIDE, ancestor)
