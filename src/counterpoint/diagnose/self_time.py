"""Self time: how long a span runs without the spans nested in it on the same line."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import nesting_ends

Longs = NDArray[np.int64]


def self_times(spans: pl.DataFrame) -> NDArray[np.int64]:
    """Return the self time of each span in picoseconds, in the order of the frame.

    Self time is how long a span runs without the spans nested in it on the same line: loops and
    calls contain the ops of their bodies.
    """
    line, start, duration = (spans[name].to_numpy() for name in ("line", "start_ps", "dur_ps"))
    order = _by_line(line, start, duration)
    start, duration, line = start[order], duration[order], line[order]
    result = np.zeros(len(spans), np.int64)
    bounds = np.flatnonzero(np.diff(line.astype(np.int64), prepend=-1, append=-1))
    for first, last in pairwise(bounds):
        rows = slice(first, last)
        result[order[rows]] = _without_children(start[rows], duration[rows])
    return result


def _by_line(line: NDArray[np.uint32], start: Longs, duration: Longs) -> Longs:
    """Return the order of spans with a length by line and start, the longer ones first."""
    lines = int(line.max(initial=0))
    narrow = line.astype(np.uint16) if lines < 1 << 16 else line  # sorted by digits if narrow
    order = np.argsort(narrow, kind="stable")
    order = order[duration[order] > 0]
    own_line = line[order]
    bounds = np.flatnonzero(np.diff(own_line.astype(np.int64), prepend=-1, append=-1))
    for low, high in pairwise(bounds.tolist()):
        # Spans are in order of start, device by device: a line has a sorted run of each.
        rows = order[low:high]
        order[low:high] = rows[np.argsort(start[rows], kind="stable")]
    first = start[order]
    together = own_line[1:] == own_line[:-1]
    same = np.flatnonzero(together & (first[1:] == first[:-1]))
    tied = np.zeros(len(order), bool)
    tied[same] = tied[same + 1] = True
    at = np.flatnonzero(tied)
    rows = order[at]
    order[at] = rows[np.lexsort((-duration[rows], start[rows], line[rows]))]
    return order


def _without_children(start: NDArray[np.int64], duration: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return self times of one line's spans, ordered by start, longer ones first.

    A span's depth is the number of spans open when it starts. Its children are the spans one level
    deeper that start before it ends, and their durations come from a running sum per level.
    """
    end = start + duration
    if not (start[1:] < end[:-1]).any():
        return duration
    end = nesting_ends(start, end)
    duration = end - start
    depth = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    first_after = np.searchsorted(start, end, side="left")
    own = duration.copy()
    for level in range(int(depth.max())):
        at_level = np.flatnonzero(depth == level)
        below = np.concatenate([[0], np.cumsum(np.where(depth == level + 1, duration, 0))])
        nested = below[np.maximum(first_after[at_level], at_level + 1)] - below[at_level + 1]
        own[at_level] -= nested
    return np.maximum(own, 0)
