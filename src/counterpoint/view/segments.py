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
        # Each bucket in which one begins is a segment: with too many of them, cutting is in vain.
        begun = len(_firsts(below.start // width))
        if begun * _GAIN <= len(below):
            parts = _fragments(below, width)
            if parts.count * _GAIN <= len(below):
                below = _merged(below, parts, width)
                found.append((width, below))
        width *= BASE
    return found


def coarsen(fine: Segments, width: int) -> Segments:
    """Return the segments of a grid: one for each bucket in which something begins or ends.

    What covers whole buckets stays one segment. Only a piece of one class reaches beyond a bucket:
    a segment with several classes is a bucket of a finer grid, which lies in one of this grid.
    """
    return _merged(fine, _fragments(fine, width), width)


@frozen(eq=False, kw_only=True)
class _Fragments:
    """Heads, middles and tails of segments in order; a middle belongs to no bucket (-1).

    `row` is that of the segment, and None where each segment is one fragment. `first` are the
    places at which a coarser segment begins.
    """

    row: Longs | None
    start: Longs
    end: Longs
    bucket: Longs
    first: Longs

    @property
    def count(self) -> int:
        """Number of coarser segments."""
        return len(self.first)


def _fragments(fine: Segments, width: int) -> _Fragments:
    """Cut segments at the first and the last border of the grid that they cross."""
    bucket = fine.start // width
    last = fine.end // width
    head_end = bucket * width
    head_end += np.where(head_end < fine.start, width, 0)
    tail_start = last * width
    crosses = head_end <= tail_start
    crosses &= fine.end > fine.start
    cut = np.flatnonzero(crosses)
    if not len(cut):
        kept = fine.end > fine.start
        row = None if kept.all() else np.flatnonzero(kept)
        whole = (fine.start, fine.end, bucket)
        start, end, bucket = whole if row is None else (each[row] for each in whole)
        return _Fragments(row=row, start=start, end=end, bucket=bucket, first=_firsts(bucket))
    counts = np.ones(len(fine), np.int64)
    counts[cut] = 3
    row = np.repeat(np.arange(len(fine)), counts)
    middle = (np.cumsum(counts) - 2)[cut]
    start, end, bucket = fine.start[row], fine.end[row], bucket[row]
    head_end, tail_start = head_end[cut], tail_start[cut]
    end[middle - 1] = start[middle] = head_end
    end[middle] = start[middle + 1] = tail_start
    bucket[middle] = -1
    bucket[middle + 1] = last[cut]
    kept = end > start
    if not kept.all():
        row, start, end, bucket = row[kept], start[kept], end[kept], bucket[kept]
    return _Fragments(row=row, start=start, end=end, bucket=bucket, first=_firsts(bucket))


def _firsts(bucket: Longs) -> Longs:
    """Return where another bucket begins; each middle is one for itself."""
    if not len(bucket):
        return np.empty(0, np.int64)
    begins = np.empty(len(bucket), np.bool_)
    begins[0] = True
    np.not_equal(bucket[1:], bucket[:-1], out=begins[1:])
    begins[1:] |= bucket[1:] < 0
    return np.flatnonzero(begins)


def _merged(fine: Segments, parts: _Fragments, width: int) -> Segments:
    """Sum up the parts of each bucket."""
    at = parts.first
    if not len(at):
        return replace(fine, span=None)
    row, bucket = parts.row, parts.bucket
    if row is None:
        times, count, longest, op = fine.times, fine.count, fine.longest, fine.op
    else:
        times, op = fine.times[:, row], fine.op[row]
        length = parts.end - parts.start
        cut = np.flatnonzero(length != (fine.end - fine.start)[row])
        times[:, cut] = np.where(times[:, cut] > 0, length[cut], 0)
        longest = np.minimum(fine.longest[row], length)
        count = np.where(parts.start == fine.start[row], fine.count[row], 0)
    most = np.maximum.reduceat(longest, at)
    sizes = np.diff(at, append=len(bucket))
    # Of equally long pieces the first: writing in reverse order leaves it last.
    candidates = np.flatnonzero(longest == np.repeat(most, sizes))[::-1]
    of = np.zeros(len(at), np.int64)
    of[np.searchsorted(at, candidates, side="right") - 1] = candidates
    own = bucket[at]
    in_bucket = own >= 0
    return Segments(
        start=np.where(in_bucket, own * width, parts.start[at]),
        end=np.where(in_bucket, (own + 1) * width, parts.end[at]),
        times=np.add.reduceat(times, at, axis=1),
        count=np.add.reduceat(count, at),
        op=op[of],
        longest=most,
    )
