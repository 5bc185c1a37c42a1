"""Rows for slices: in a row, slices follow or contain each other, as every viewer expects.

Work on one stream does so already. Async windows overlap as they please, and so does work that a
profiler put on one line although it ran on several.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]


def order(start: Longs, end: Longs) -> Longs:
    """Positions by start, and the longer first, so that what contains comes before its content."""
    return np.lexsort((-end, start))


def rows(start: Longs, end: Longs) -> Longs:
    """The row of each slice, the first that it fits into; slices come in `order`."""
    row = np.zeros(len(start), np.int64)
    open_ends: list[list[int]] = [[]]
    # Slices that touch no other stay in row 0; only crowds are looked at one by one.
    for first, last in _crowds(start, end):
        for stack in open_ends:
            stack.clear()
        for position in range(first, last):
            row[position] = _place(int(start[position]), int(end[position]), open_ends)
    return row


def _crowds(start: Longs, end: Longs) -> Iterator[tuple[int, int]]:
    """Ranges of slices that are linked by overlaps."""
    if not len(start):
        return
    reach = np.maximum.accumulate(end)
    opens = np.flatnonzero(np.append(True, start[1:] >= reach[:-1]))
    closes = np.append(opens[1:], len(start))
    crowded = closes - opens > 1
    yield from zip(opens[crowded].tolist(), closes[crowded].tolist(), strict=True)


def _place(start: int, end: int, open_ends: list[list[int]]) -> int:
    for row, stack in enumerate(open_ends):
        while stack and stack[-1] <= start:
            stack.pop()
        if not stack or end <= stack[-1]:
            stack.append(end)
            return row
    open_ends.append([end])
    return len(open_ends) - 1
