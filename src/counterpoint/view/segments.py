"""Segments of a lane: pieces of time with the time of each class in them, and coarser ones.

A lane's finest segments are its spans, cut where their class changes. `coarsen` puts what touches a
bucket of a grid into one segment and leaves long pieces whole, so a level has few segments where
little happens. Sums are integers of picoseconds: at every level and between any two borders of its
grid, each class has exactly the time that it has among the spans (docs/formats/levels.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Kinds = NDArray[np.int8]
Numbers = NDArray[np.uint32]
"""Of ops, lines and spans."""

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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Segments:
    """Segments of one row of a lane, sorted and without overlap; what lies between them is idle.

    `times` has a row for each class. `op` is that of the longest piece, `longest` its length.
    `span` is None unless each segment is a piece of one span.
    """

    start: Longs
    end: Longs
    times: Longs
    count: Longs
    op: Numbers
    longest: Longs
    span: Numbers | None = None

    def __len__(self) -> int:
        return len(self.start)

    def at(self, rows: Longs) -> Segments:
        """Return some of the segments, without their spans."""
        return Segments(
            start=self.start[rows],
            end=self.end[rows],
            times=self.times[:, rows],
            count=self.count[rows],
            op=self.op[rows],
            longest=self.longest[rows],
        )


def pieces(start: Longs, end: Longs, kind: Kinds, op: Numbers, classes: int) -> Segments:
    """Return pieces of one class each as segments."""
    length = end - start
    times = np.where(kind == np.arange(classes, dtype=kind.dtype)[:, None], length, 0)
    return Segments(
        start=start, end=end, times=times, count=np.ones_like(start), op=op, longest=length
    )


def levels(finest: Segments) -> list[tuple[int, Segments]]:
    """Return the coarser levels of a lane, the finest first, with the widths of their buckets."""
    wider: list[tuple[int, Segments]] = []
    below = finest
    if len(finest) <= _FEW:
        return wider
    extent = int(finest.end[-1] - finest.start[0])
    width = _FINEST
    while width * BASE < extent // len(finest):
        width *= BASE
    while len(below) > _LAST and width < extent:
        coarser = _coarser(below, width, most=len(below) // _GAIN)
        if coarser is not None:
            below = coarser
            wider.append((width, below))
        width *= BASE
    return wider


def coarsen(fine: Segments, width: int) -> Segments:
    """Return the segments of a grid: one for each bucket in which something begins or ends.

    What covers whole buckets stays one segment. Only a piece of one class reaches beyond a bucket:
    a segment with several classes is a bucket of a finer grid, which lies in one of this grid.
    """
    return _coarser(fine, width, most=3 * len(fine)) or replace(fine, span=None)


def _coarser(fine: Segments, width: int, most: int) -> Segments | None:
    """Return what `coarsen` does; None, before anything is summed up, if that is more or nothing.

    Each bucket has the sum of what begins in it, less what reaches beyond, which is put behind.
    """
    bucket = fine.start // width
    first = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
    if not 0 < len(first) <= most or not len(fine):
        return None
    if not (real := fine.end > fine.start).all():
        return _coarser(fine.at(np.flatnonzero(real)), width, most)
    own = bucket[first]
    # Only the last one that begins in a bucket can reach beyond it.
    last = np.append(first[1:], len(fine)) - 1
    reaching = np.flatnonzero(fine.end[last] > (own + 1) * width)
    last = last[reaching]
    start, end = fine.start[last], fine.end[last]
    tail = end // width * width
    # One that covers its first bucket is alone there, and stays one piece up to its tail.
    head_end = np.where(start == own[reaching] * width, tail, (own[reaching] + 1) * width)
    met = np.append(own, -1)[reaching + 1] * width == tail
    middle, alone = tail > head_end, (end > tail) & ~met
    if len(first) + np.count_nonzero(middle) + np.count_nonzero(alone) > most:
        return None
    longest = fine.longest.copy()
    longest[last] = head_end - start
    begun = _sums(replace(fine, longest=longest), first, own * width, (own + 1) * width)
    begun.end[reaching] = head_end
    long = fine.at(last)
    begun.times[:, reaching] -= np.where(long.times > 0, end - head_end, 0)
    tails, into = _part(long, met, tail, end), reaching[met] + 1
    begun.times[:, into] += tails.times
    wins = tails.longest >= begun.longest[into]
    begun.op[into[wins]], begun.longest[into[wins]] = tails.op[wins], tails.longest[wins]
    lone = _part(long, alone, tail, end)
    lone = replace(lone, end=lone.start + width)
    return _in_order(begun, _part(long, middle, head_end, tail), lone)


def _sums(fine: Segments, first: Longs, start: Longs, end: Longs) -> Segments:
    """Sum up groups of segments, the first rows of which are given."""
    most = np.maximum.reduceat(fine.longest, first)
    # Of equally long pieces the first.
    longest = np.flatnonzero(fine.longest == np.repeat(most, np.diff(first, append=len(fine))))
    return Segments(
        start=start,
        end=end,
        times=np.add.reduceat(fine.times, first, axis=1),
        count=np.add.reduceat(fine.count, first),
        op=fine.op[longest[np.searchsorted(longest, first)]],
        longest=most,
    )


def _part(long: Segments, rows: NDArray[np.bool_], start: Longs, end: Longs) -> Segments:
    """Return what lies between two moments of some pieces; they count where they begin."""
    start, length = start[rows], (end - start)[rows]
    return Segments(
        start=start,
        end=start + length,
        times=np.where(long.times[:, rows] > 0, length, 0),
        count=np.zeros_like(start),
        op=long.op[rows],
        longest=length,
    )


def _in_order(*parts: Segments) -> Segments:
    """Return segments as one list, sorted by start."""
    parts = tuple(each for each in parts if len(each))
    if len(parts) == 1:
        return parts[0]
    # Sorted runs: a stable sort merges them in linear time.
    order = np.argsort(np.concatenate([each.start for each in parts]), kind="stable")
    return Segments(
        start=np.concatenate([each.start for each in parts])[order],
        end=np.concatenate([each.end for each in parts])[order],
        times=np.concatenate([each.times for each in parts], axis=1)[:, order],
        count=np.concatenate([each.count for each in parts])[order],
        op=np.concatenate([each.op for each in parts])[order],
        longest=np.concatenate([each.longest for each in parts])[order],
    )
