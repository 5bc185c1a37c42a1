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
        bucket = below.start // width
        # Each bucket in which one begins is a segment: with too many of them, summing is in vain.
        if (1 + np.count_nonzero(bucket[1:] != bucket[:-1])) * _GAIN <= len(below):
            coarser = _coarser(below, bucket, width)
            if len(coarser) * _GAIN <= len(below):
                below = coarser
                found.append((width, below))
        width *= BASE
    return found


def coarsen(fine: Segments, width: int) -> Segments:
    """Return the segments of a grid: one for each bucket in which something begins or ends.

    What covers whole buckets stays one segment. Only a piece of one class reaches beyond a bucket:
    a segment with several classes is a bucket of a finer grid, which lies in one of this grid.
    """
    return _coarser(fine, fine.start // width, width)


def _coarser(fine: Segments, bucket: Longs, width: int) -> Segments:
    """Sum up what begins in each bucket; what reaches beyond it is taken off and put behind."""
    if not (real := fine.end > fine.start).all():
        fine, bucket = fine.at(np.flatnonzero(real)), bucket[real]
    if not len(fine):
        return replace(fine, span=None)
    first = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
    own = bucket[first]
    # Only the last one that begins in a bucket can reach beyond it.
    last = np.append(first[1:], len(fine)) - 1
    reaches = np.flatnonzero(fine.end[last] > (own + 1) * width)
    long = fine.at(last[reaches])
    tail = long.end // width * width
    # One that covers its first bucket is alone there, and stays one piece up to its tail.
    covers = long.start == own[reaches] * width
    head_end = np.where(covers, tail, (own[reaches] + 1) * width)
    longest = fine.longest.copy()
    longest[last[reaches]] = head_end - long.start
    most = np.maximum.reduceat(longest, first)
    # Of equally long pieces the first.
    longest_at = np.flatnonzero(longest == np.repeat(most, np.diff(first, append=len(fine))))
    begun = Segments(
        start=own * width,
        end=(own + 1) * width,
        times=np.add.reduceat(fine.times, first, axis=1),
        count=np.add.reduceat(fine.count, first),
        op=fine.op[longest_at[np.searchsorted(longest_at, first)]],
        longest=most,
    )
    begun.end[reaches] = head_end
    begun.times[:, reaches] -= np.where(long.times > 0, long.end - head_end, 0)
    return _joined(begun, _part(long, head_end, tail), _part(long, tail, long.end), width)


def _part(long: Segments, start: Longs, end: Longs) -> Segments:
    """Return what lies between two moments of each piece; where it began, it was counted."""
    found = Segments(
        start=start,
        end=end,
        times=np.where(long.times > 0, end - start, 0),
        count=np.zeros_like(start),
        op=long.op,
        longest=end - start,
    )
    return found.at(np.flatnonzero(end > start))


def _joined(begun: Segments, middles: Segments, tails: Segments, width: int) -> Segments:
    """Put tails into the buckets in which they end; a bucket where nothing begins is their own."""
    into = np.searchsorted(begun.start, tails.start)
    meets = begun.start[np.minimum(into, len(begun) - 1)] == tails.start
    into, met = into[meets], tails.at(np.flatnonzero(meets))
    begun.times[:, into] += met.times
    wins = met.longest >= begun.longest[into]
    begun.op[into[wins]], begun.longest[into[wins]] = met.op[wins], met.longest[wins]
    alone = tails.at(np.flatnonzero(~meets))
    alone = replace(alone, end=alone.start + width)
    if not len(middles) and not len(alone):
        return begun
    parts = (begun, middles, alone)
    # Sorted runs: a stable sort merges them in linear time.
    order = np.argsort(np.concatenate([each.start for each in parts]), kind="stable")
    return Segments(
        **{
            name: np.concatenate([getattr(each, name) for each in parts], axis=-1)[..., order]
            for name in ("start", "end", "times", "count", "op", "longest")
        }
    )
