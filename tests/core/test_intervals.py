"""Interval sets against a plain model: the set of covered picoseconds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.columns import EMPTY, Intervals, order_by, union, values_of

PAIRS = st.lists(st.tuples(st.integers(-30, 60), st.integers(-5, 25)), max_size=12)


def make(pairs: list[tuple[int, int]]) -> Intervals:
    start = np.array([start for start, _ in pairs], np.int64)
    return union(start, start + np.array([length for _, length in pairs], np.int64))


def points(intervals: Intervals) -> set[int]:
    return {
        point
        for start, end in zip(intervals.start.tolist(), intervals.end.tolist(), strict=True)
        for point in range(start, end)
    }


@given(PAIRS)
def test_union_covers_what_its_parts_cover(pairs: list[tuple[int, int]]) -> None:
    made = make(pairs)
    assert points(made) == {p for start, length in pairs for p in range(start, start + length)}
    assert made.total == len(points(made))
    # Disjoint, sorted, never touching: one set has one form.
    assert (made.start[1:] > made.end[:-1]).all()
    assert (made.end > made.start).all()


@given(PAIRS, PAIRS)
def test_operators_are_those_of_sets(
    one: list[tuple[int, int]], two: list[tuple[int, int]]
) -> None:
    a, b = make(one), make(two)
    assert points(a & b) == points(a) & points(b)
    assert points(a | b) == points(a) | points(b)
    assert points(a - b) == points(a) - points(b)
    assert (a & b).total + (a - b).total == a.total


@given(PAIRS, st.integers(-40, 90), st.integers(-40, 90))
def test_clip_keeps_what_lies_inside(pairs: list[tuple[int, int]], start: int, end: int) -> None:
    clipped = make(pairs).clip(start, end)
    assert points(clipped) == points(make(pairs)) & set(range(start, end))


@given(PAIRS, PAIRS)
def test_covered_measures_each_interval_alone(
    pairs: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    asked = [(start, abs(length)) for start, length in asked]
    start = np.array([start for start, _ in asked], np.int64)
    end = start + np.array([length for _, length in asked], np.int64)
    inside = make(pairs)
    expected = [len(points(inside) & set(range(s, s + length))) for s, length in asked]
    assert inside.covered(start, end).tolist() == expected


def test_touching_intervals_join() -> None:
    joined = make([(0, 5), (5, 5), (11, 1)])
    assert joined.start.tolist() == [0, 11]
    assert joined.end.tolist() == [10, 12]


def test_what_has_no_length_covers_nothing() -> None:
    assert len(EMPTY) == len(make([(3, 0), (4, -1)])) == 0
    assert make([(3, 2), (9, 1), (12, 0)]).total == 3


@pytest.mark.parametrize("operator", ["__and__", "__or__", "__sub__"])
def test_nothing_with_nothing_is_nothing(operator: str) -> None:
    assert len(getattr(EMPTY, operator)(EMPTY)) == 0


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=30))
def test_rows_are_ordered_by_time_and_then_by_the_other_columns(
    rows: list[tuple[int, int, int]],
) -> None:
    times, first, second = (np.array([row[at] for row in rows], np.int64) for at in range(3))
    assert [rows[at] for at in order_by(times, first, second)] == sorted(rows)


@given(st.lists(st.integers(-3, 3)), st.booleans(), st.sampled_from([np.int64, np.uint16]))
def test_values_are_those_of_numpy(
    numbers: list[int], is_sorted: bool, kind: type[np.int64 | np.uint16]
) -> None:
    column = np.array(sorted(numbers) if is_sorted else numbers, np.int64).astype(kind)
    found = values_of(column)
    assert found.dtype == column.dtype
    assert found.tolist() == np.unique(column).tolist()
