"""Sets of half-open intervals [start, end) as two sorted numpy columns of picoseconds.

Time on a device is a set, not a sum: two concurrent kernels take the union of their spans. Every
breakdown is built from the four operations here, so its parts add up by construction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb, exp, fsum, log
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "EMPTY",
    "Intervals",
    "around_median",
    "as_ranges",
    "at_least",
    "column_medians",
    "distinct",
    "nesting_ends",
    "order_by",
    "union",
    "values_of",
]


Picoseconds = NDArray[np.int64]


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

    def __and__(self, other: Intervals) -> Intervals:
        return _common(self, other) if len(self) <= len(other) else _common(other, self)

    def __or__(self, other: Intervals) -> Intervals:
        if not len(self) or not len(other):
            return self if len(self) else other
        # Two sorted runs: a stable sort merges them in linear time.
        start = np.concatenate((self.start, other.start))
        order = np.argsort(start, kind="stable")
        return _joined(start[order], np.concatenate((self.end, other.end))[order])

    def __sub__(self, other: Intervals) -> Intervals:
        if not len(self):
            return EMPTY
        first, last = int(self.start[0]), int(self.end[-1])
        taken = other.clip(first, last)
        if not len(taken):
            return self
        start, end = np.append(first, taken.end), np.append(taken.start, last)
        kept = end > start
        return self & Intervals(start[kept], end[kept])

    def clip(self, start: int, end: int) -> Intervals:
        """Return the part of the set inside [start, end)."""
        first = int(np.searchsorted(self.end, start, side="right"))
        last = int(np.searchsorted(self.start, end, side="left"))
        if first >= last:
            return EMPTY
        return Intervals(
            np.maximum(self.start[first:last], start), np.minimum(self.end[first:last], end)
        )

    def covered(self, start: Picoseconds, end: Picoseconds) -> Picoseconds:
        """Return how much of each given interval lies inside the set."""
        return _measure_before(self, end) - _measure_before(self, start)


def _measure_before(of: Intervals, at: Picoseconds) -> Picoseconds:
    if not len(of):
        return np.zeros(len(at), np.int64)
    before = np.concatenate(([0], np.cumsum(of.end - of.start)))
    index = np.searchsorted(of.start, at, side="right")
    inside = np.maximum(of.end[index - 1] - at, 0)
    return np.where(index > 0, before[index] - inside, 0)


def union(start: Picoseconds, end: Picoseconds) -> Intervals:
    """Return the set covered by intervals in any order; empty and inverted ones cover nothing."""
    start, end = np.asarray(start, np.int64), np.asarray(end, np.int64)
    kept = end > start
    if not kept.any():
        return EMPTY
    if not kept.all():
        start, end = start[kept], end[kept]
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    return _joined(start, end)


def _joined(start: Picoseconds, end: Picoseconds) -> Intervals:
    """Return the set covered by non-empty intervals that are sorted by start."""
    reach = np.maximum.accumulate(end)
    opens = np.empty(len(start), bool)
    opens[0] = True
    # Touching intervals join: the device was never idle between them.
    np.greater(start[1:], reach[:-1], out=opens[1:])
    if opens.all():
        return Intervals(start, end)
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(start)) - 1
    return Intervals(start[first], reach[last])


def _common(few: Intervals, many: Intervals) -> Intervals:
    """Return the intersection: what each interval of one set shares with those of the other.

    Both are sorted and disjoint, so the pieces are, too, and none touches the next.
    """
    if not len(few):
        return EMPTY
    low = np.searchsorted(many.end, few.start, side="right")
    shared = np.searchsorted(many.start, few.end, side="left") - low
    np.maximum(shared, 0, out=shared)
    count = int(shared.sum())
    if not count:
        return EMPTY
    own = np.repeat(np.arange(len(few)), shared)
    before = np.cumsum(shared) - shared
    theirs = np.arange(count) + np.repeat(low - before, shared)
    return Intervals(
        np.maximum(few.start[own], many.start[theirs]), np.minimum(few.end[own], many.end[theirs])
    )


EMPTY = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


Longs = NDArray[np.int64]
N = TypeVar("N", bound=np.number[Any])

_DENSE: Final = 1 << 18
"""Maximum number of value combinations to number with a table."""

_ABSENT: Final = -1
_RANGES: Final = 6


def distinct(columns: Sequence[Longs]) -> tuple[Longs, Longs]:
    """Return the index of each distinct row's first occurrence, and the number of each row.

    Columns are ids: small numbers in a narrow range, so a table of all combinations is far cheaper
    than sorting. Columns with a wide range (a hash as program id) are numbered first.
    """
    code = np.zeros(len(columns[0]), np.int64)
    if not len(code):
        return code, code
    room = 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        if high - low >= _DENSE:
            _, numbered = np.unique(column, return_inverse=True)
            low, high = 0, int(numbered.max())
        else:
            numbered = column - low
        if room * (high - low + 1) > _DENSE:
            _, code = np.unique(code, return_inverse=True)
            room = int(code.max()) + 1
        code = code * (high - low + 1) + numbered
        room *= high - low + 1
    if room > _DENSE:
        _, first, code = np.unique(code, return_index=True, return_inverse=True)
        return first, code
    table = np.full(room, _ABSENT, np.int64)
    table[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    present = np.flatnonzero(table != _ABSENT)
    first = table[present]
    table[present] = np.arange(len(present))
    return first, table[code]


def values_of(column: NDArray[N]) -> NDArray[N]:
    """Return the values of a column, sorted: `np.unique`, which takes longer where values repeat.

    Columns of tables are sorted, or at least most rows have the value of the row before.
    """
    changes = np.empty(len(column), bool)
    changes[:1] = True
    np.not_equal(column[1:], column[:-1], out=changes[1:])
    values = column[changes]
    if (values[1:] > values[:-1]).all():
        return values
    return values_of(np.sort(values))


def around_median(lengths: Iterable[float]) -> tuple[float, float]:
    """Return the limits of the middle half of the lengths, or of 1% around the median if wider."""
    ranked = sorted(lengths)
    middle, half = float(np.median(ranked)), (len(ranked) - 1) // 4
    low, high = ranked[(len(ranked) - 1) // 2 - half], ranked[len(ranked) // 2 + half]
    return min(low, 0.99 * middle), max(high, 1.01 * middle)


def column_medians(of: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median of each column; NaN if it has no values."""
    known = np.isfinite(of).any(axis=0)
    result = np.full(of.shape[1], np.nan)
    result[known] = np.nanmedian(of[:, known], axis=0)
    return result


def at_least(hits: int, of: int, chance: float) -> float:
    """Return the probability of at least so many hits, each of which has this chance."""
    if hits <= 0 or chance >= 1:
        return 1.0
    each = range(hits, of + 1)
    return fsum(exp(log(comb(of, k)) + k * log(chance) + (of - k) * log(1 - chance)) for k in each)


def order_by(times: Longs, *then: Longs) -> Longs:
    """Return the order of rows by time, and among equal times by the other columns in turn.

    The same as `np.lexsort`, and several times faster where few times are equal.
    """
    order = np.argsort(times, kind="stable")
    sorted_times = times[order]
    same = np.flatnonzero(sorted_times[1:] == sorted_times[:-1])
    if len(same):
        tied = np.zeros(len(order), bool)
        tied[same] = tied[same + 1] = True
        at = np.flatnonzero(tied)
        rows = order[at]
        keys = [column[rows] for column in then]
        order[at] = rows[np.lexsort((*keys[::-1], sorted_times[at]))]
    return order


def as_ranges(numbers: Iterable[int]) -> str:
    """Format as `5 to 14`, `3`, or `0 to 4 and 10 to 14`; of many ranges, only the first ones."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    shown = [str(low) if low == high else f"{low} to {high}" for low, high in ranges[:_RANGES]]
    if len(ranges) > _RANGES:
        return f"{', '.join(shown)}, and others up to {ranges[-1][1]}"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))) if shown else "none"


def nesting_ends(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ends such that spans nest: a span ends where one starts that outlasts it.

    Spans are in order of start, the longer ones first. A GPU may start a kernel before the one
    ahead of it in the stream has finished; an annotation begins in its constructor, and outlasts
    that function's frame. The last start before the end of each overlapping span bounds those that
    may outlast it.
    """
    overlapping = np.flatnonzero(start[1:] < end[:-1])
    if not len(overlapping):
        return end
    ends = end[overlapping]
    past = np.searchsorted(start, ends, side="left")
    bounds = np.stack([overlapping + 1, past], axis=1).ravel()
    crossed = np.maximum.reduceat(np.append(end, 0), bounds)[::2] > ends
    cut = end.copy()
    for span, stop in zip(overlapping[crossed], past[crossed], strict=True):
        cut[span] = start[span + 1 + np.argmax(end[span + 1 : stop] > end[span])]
    return cut
