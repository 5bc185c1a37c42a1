"""Sets of half-open intervals [start, end) as two sorted numpy columns of picoseconds.

Time on a device is a set, not a sum: two kernels that run side by side take the union of their
spans. Every breakdown is built from the four operations here, so its parts add up by construction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Picoseconds = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Disjoint, sorted, non-empty intervals. Build with `union`, never by hand."""

    start: Picoseconds
    end: Picoseconds

    def __len__(self) -> int:
        return len(self.start)

    @property
    def total(self) -> int:
        """The time covered."""
        return int((self.end - self.start).sum())

    @property
    def hull(self) -> tuple[int, int] | None:
        """First start and last end, or None for the empty set."""
        return (int(self.start[0]), int(self.end[-1])) if len(self.start) else None

    def __and__(self, other: Intervals) -> Intervals:
        return _sweep(self, other, lambda mine, theirs: mine & theirs)

    def __or__(self, other: Intervals) -> Intervals:
        return _sweep(self, other, lambda mine, theirs: mine | theirs)

    def __sub__(self, other: Intervals) -> Intervals:
        return _sweep(self, other, lambda mine, theirs: mine & ~theirs)

    def clip(self, start: int, end: int) -> Intervals:
        """The part of the set inside [start, end)."""
        first = int(np.searchsorted(self.end, start, side="right"))
        last = int(np.searchsorted(self.start, end, side="left"))
        if first >= last:
            return EMPTY
        return Intervals(
            np.maximum(self.start[first:last], start), np.minimum(self.end[first:last], end)
        )

    def covered(self, start: Picoseconds, end: Picoseconds) -> Picoseconds:
        """How much of each given interval lies inside the set."""
        return _measure_before(self, end) - _measure_before(self, start)


def _measure_before(of: Intervals, at: Picoseconds) -> Picoseconds:
    if not len(of):
        return np.zeros(len(at), np.int64)
    before = np.concatenate(([0], np.cumsum(of.end - of.start)))
    index = np.searchsorted(of.start, at, side="right")
    inside = np.maximum(of.end[index - 1] - at, 0)
    return np.where(index > 0, before[index] - inside, 0)


def union(start: Picoseconds, end: Picoseconds) -> Intervals:
    """The set covered by intervals in any order; empty and inverted ones cover nothing."""
    start, end = np.asarray(start, np.int64), np.asarray(end, np.int64)
    kept = end > start
    if not kept.any():
        return EMPTY
    start, end = start[kept], end[kept]
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.empty(len(start), bool)
    opens[0] = True
    # Touching intervals join: the device was never free between them.
    np.greater(start[1:], reach[:-1], out=opens[1:])
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(start)) - 1
    return Intervals(start[first], reach[last])


def _sweep(a: Intervals, b: Intervals, keep: Callable[[Mask, Mask], Mask]) -> Intervals:
    if not len(a) and not len(b):
        return EMPTY
    at = np.unique(np.concatenate((a.start, a.end, b.start, b.end)))
    kept = keep(_inside(a, at), _inside(b, at))
    return union(at[:-1][kept[:-1]], at[1:][kept[:-1]])


def _inside(of: Intervals, at: Picoseconds) -> Mask:
    if not len(of):
        return np.zeros(len(at), bool)
    index = np.searchsorted(of.start, at, side="right") - 1
    return (index >= 0) & (at < of.end[np.maximum(index, 0)])


EMPTY = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))
