"""Segments of a lane: pieces of time with the time of each class in them, and coarser ones.

A lane's finest segments are its spans, cut where their class changes. `coarsen` puts what touches a
bucket of a grid into one segment and leaves long pieces whole, so a level has few segments where
little happens. Sums are integers of picoseconds: at every level and between any two borders of its
grid, each class has exactly the time that it has among the spans (docs/formats/levels.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoint.core.frozen import frozen

Longs = NDArray[np.int64]

NO_OP: Final = 0xFFFFFFFF
BASE: Final = 8
"""Each level's buckets are so many times as wide as those of the level before."""
_FINEST: Final = 1000
"""Width of the narrowest buckets in picoseconds."""
_FEW: Final = 2048
"""Spans of a lane for which no coarser level is needed."""
_GAIN: Final = 3
"""A level is kept if it has at least this many times fewer segments than the one below."""
_LAST: Final = 64


@frozen(eq=False, kw_only=True)
class Segments:
    """Segments of one row of a lane, sorted and without overlap; what lies between them is idle.

    `times` has a row for each class. `op` is that of the longest piece, `longest` its length.
    `span` is None unless each segment is a piece of one span.
    """

    start: Longs
    end: Longs
    times: Longs
    count: Longs
    op: Longs
    longest: Longs
    span: Longs | None = None

    def __len__(self) -> int:
        return len(self.start)


def pieces(start: Longs, end: Longs, kind: Longs, op: Longs, classes: int) -> Segments:
    """Return pieces of one class each as segments."""
    length = end - start
    times = np.zeros((classes, len(start)), np.int64)
    times[kind, np.arange(len(start))] = length
    return Segments(
        start=start, end=end, times=times, count=np.ones_like(start), op=op, longest=length
    )


def levels(finest: Segments) -> list[tuple[int, Segments]]:
    """Return the coarser levels of a lane, the finest first, with the widths of their buckets."""
    found: list[tuple[int, Segments]] = []
    below = finest
    if len(finest) <= _FEW:
        return found
    extent = int(finest.end[-1] - finest.start[0])
    width = _FINEST
    while width * BASE < extent // len(finest):
        width *= BASE
    while len(below) > _LAST and width < extent:
        coarser = coarsen(below, width)
        if len(coarser) * _GAIN <= len(below):
            found.append((width, coarser))
            below = coarser
        width *= BASE
    return found


def coarsen(fine: Segments, width: int) -> Segments:
    """Return the segments of a grid: one for each bucket in which something begins or ends.

    What covers whole buckets stays one segment. Only a piece of one class reaches beyond a bucket:
    a segment with several classes is a bucket of a finer grid, which lies in one of this grid.
    """
    head_end = -(-fine.start // width) * width
    tail_start = fine.end // width * width
    inside = head_end > tail_start
    head_end = np.where(inside, fine.end, head_end)
    tail_start = np.where(inside, fine.end, tail_start)
    parts = _Fragments(
        row=np.repeat(np.arange(len(fine)), 3),
        start=_woven(fine.start, head_end, tail_start),
        end=_woven(head_end, tail_start, fine.end),
        bucket=_woven(fine.start // width, np.full(len(fine), -1, np.int64), fine.end // width),
    )
    return _merged(fine, parts.without_empty(), width)


@frozen(eq=False, kw_only=True)
class _Fragments:
    """Heads, middles and tails of segments in order; a middle belongs to no bucket (-1)."""

    row: Longs
    start: Longs
    end: Longs
    bucket: Longs

    def without_empty(self) -> _Fragments:
        kept = self.end > self.start
        return _Fragments(
            row=self.row[kept],
            start=self.start[kept],
            end=self.end[kept],
            bucket=self.bucket[kept],
        )


def _woven(*columns: Longs) -> Longs:
    return np.stack(columns, axis=1).reshape(-1)


def _merged(fine: Segments, parts: _Fragments, width: int) -> Segments:
    """Sum up the parts of each bucket."""
    bucket = parts.bucket
    changes = np.append(True, (bucket[1:] != bucket[:-1]) | (bucket[1:] < 0))
    at = np.flatnonzero(changes)
    if not len(at):
        return replace(fine, span=None)
    whole = fine.end[parts.row] - fine.start[parts.row]
    length = parts.end - parts.start
    times = fine.times[:, parts.row]
    cut = np.flatnonzero(length != whole)
    times[:, cut] = np.where(times[:, cut] > 0, length[cut], 0)
    longest = np.minimum(fine.longest[parts.row], length)
    grouped = np.repeat(np.arange(len(at)), np.diff(np.append(at, len(bucket))))
    most = np.maximum.reduceat(longest, at)
    # Of equally long pieces the first: writing in reverse order leaves it last.
    candidates = np.flatnonzero(longest == most[grouped])[::-1]
    of = np.zeros(len(at), np.int64)
    of[grouped[candidates]] = candidates
    in_bucket = bucket[at] >= 0
    return Segments(
        start=np.where(in_bucket, bucket[at] * width, parts.start[at]),
        end=np.where(in_bucket, (bucket[at] + 1) * width, parts.end[at]),
        times=np.add.reduceat(times, at, axis=1),
        count=np.add.reduceat(
            np.where(parts.start == fine.start[parts.row], fine.count[parts.row], 0), at
        ),
        op=fine.op[parts.row[of]],
        longest=most,
    )
