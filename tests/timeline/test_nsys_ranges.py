"""Nesting of ranges, held against the obvious way of finding the innermost one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.timeline.nsys.nesting import OUTSIDE, Longs, nearest, nest

Rows = list[tuple[int, int, int]]


@st.composite
def nested_rows(draw: st.DrawFn) -> Rows:
    """Ranges (thread, start, end) that nest on each thread, in any order."""
    rows: Rows = []

    def fill(thread: int, start: int, end: int, depth: int) -> None:
        while start < end and draw(st.booleans()):
            first = draw(st.integers(start, end))
            last = draw(st.integers(first, end))
            rows.append((thread, first, last))
            if depth and last > first:
                fill(thread, first, last, depth - 1)
            start = max(last, start + 1)

    for thread in range(draw(st.integers(0, 3))):
        fill(thread, 0, 40, 3)
    return draw(st.permutations(rows))


def columns(rows: Rows) -> tuple[Longs, Longs, Longs]:
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def shortest_around(rows: Rows, thread: int, time: int) -> set[tuple[int, int, int]]:
    around = [row for row in rows if row[0] == thread and row[1] <= time < row[2]]
    least = min((row[2] - row[1] for row in around), default=0)
    return {row for row in around if row[2] - row[1] == least}


@given(nested_rows(), st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 41)), max_size=20))
def test_the_innermost_range_is_the_shortest_around(
    rows: Rows, asked: list[tuple[int, int]]
) -> None:
    moments = np.array(asked, np.int64).reshape(-1, 2)
    found = nest(*columns(rows)).innermost(moments[:, 0], moments[:, 1])
    for (thread, time), row in zip(asked, found.tolist(), strict=True):
        expected = shortest_around(rows, thread, time)
        assert (rows[row] in expected) if row != OUTSIDE else not expected


@given(nested_rows())
def test_a_parent_holds_its_child(rows: Rows) -> None:
    parent = nest(*columns(rows)).parent
    for child, row in enumerate(parent.tolist()):
        if row == OUTSIDE:
            continue
        thread, start, end = rows[child]
        assert rows[row][0] == thread
        assert rows[row][1] <= start
        assert end <= rows[row][2]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 30))))
def test_ranges_that_cross_never_yield_one_that_does_not_hold_the_moment(rows: Rows) -> None:
    nesting = nest(*columns(rows))
    for time in range(31):
        for thread in range(3):
            row = int(nesting.innermost(np.array([thread]), np.array([time]))[0])
            assert row == OUTSIDE or (
                rows[row][0] == thread and rows[row][1] <= time < rows[row][2]
            )


def test_nearest_wanted_range_is_itself_or_around() -> None:
    parent = np.array([OUTSIDE, 0, 1, 2, OUTSIDE])
    wanted = np.array([True, False, True, False, False])
    assert nearest(parent, wanted).tolist() == [0, 0, 2, 2, OUTSIDE]
    assert nearest(parent[:0], wanted[:0]).tolist() == []
