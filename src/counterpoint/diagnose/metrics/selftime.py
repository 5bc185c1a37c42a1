"""Self time: how long a span runs without the spans nested in it on the same line.

Loops and calls contain the ops of their bodies; their own time is what these leave.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray


def self_times(spans: pl.DataFrame) -> NDArray[np.int64]:
    """Self time of each span in picoseconds, in the frame's own order."""
    order = (
        spans.select("line", "start_ps", "dur_ps")
        .with_row_index("at")
        .filter(pl.col("dur_ps") > 0)
        .sort("line", "start_ps", "dur_ps", descending=[False, False, True])["at"]
        .to_numpy()
    )
    start = spans["start_ps"].to_numpy()[order]
    duration = spans["dur_ps"].to_numpy()[order]
    line = spans["line"].to_numpy()[order]
    result = np.zeros(len(spans), np.int64)
    bounds = np.flatnonzero(np.diff(line.astype(np.int64), prepend=-1, append=-1))
    for first, last in pairwise(bounds):
        one = slice(first, last)
        result[order[one]] = _without_children(start[one], duration[one])
    return result


def _without_children(start: NDArray[np.int64], duration: NDArray[np.int64]) -> NDArray[np.int64]:
    """One line's spans in order of start, the longer first.

    A span's depth is the number of spans open when it starts. Its children are the spans one level
    deeper that start before it ends, and their durations come from a running sum per level.
    """
    end = start + duration
    if not (start[1:] < end[:-1]).any():
        return duration
    depth = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    behind = np.searchsorted(start, end, side="left")
    own = duration.copy()
    for level in range(int(depth.max())):
        at_level = np.flatnonzero(depth == level)
        below = np.concatenate([[0], np.cumsum(np.where(depth == level + 1, duration, 0))])
        nested = below[np.maximum(behind[at_level], at_level + 1)] - below[at_level + 1]
        own[at_level] -= nested
    return np.maximum(own, 0)
