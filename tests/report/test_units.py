"""Figures keep their digits, their unit, and whether they are known at all."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.report import units


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (131.2995, "131.3 ms"),
        (12.0149, "12.01 ms"),
        (0.6371, "0.637 ms"),
        (0.0453, "0.0453 ms"),
        (0.0000012, "<0.00001 ms"),
        (98_600.0, "98,600.0 ms"),
        (0, "0 ms"),
        (None, "?"),
        (math.nan, "?"),
        (math.inf, "?"),
    ],
)
def test_times(ms: float | None, shown: str) -> None:
    assert units.milliseconds(ms) == shown


def test_differences_have_signs_and_none_is_a_zero_with_one() -> None:
    assert units.differences([131.3, -0.0453, 0, None]) == ["+131.3", "0", "0", "?"]
    assert units.differences([-0.0453, 0.01, math.nan]) == ["-0.0453", "+0.0100", "?"]


def test_a_column_has_the_decimals_of_its_largest() -> None:
    assert units.column([131.3, 0.0453, 0.01, None, 0]) == ["131.3", "<0.1", "<0.1", "?", "0"]
    assert units.column([-131.3, -0.0453, 0.0453]) == ["-131.3", ">-0.1", "<0.1"]


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.8947, "89.5%"), (0.0001, "<0.1%"), (0, "0%"), (1, "100.0%"), (None, "?")],
)
def test_shares(share: float | None, shown: str) -> None:
    assert units.percent(share) == shown


@given(st.lists(st.floats(min_value=0.01, max_value=1e6), min_size=1, max_size=6))
def test_a_part_has_the_share_that_it_has_anywhere_else(parts: list[float]) -> None:
    assert units.percentages(parts) == [units.percent(part / sum(parts)) for part in parts]


def test_percentages_of_nothing_are_unknown() -> None:
    assert units.percentages([0, 0]) == ["?", "?"]


@pytest.mark.parametrize(
    ("count", "shown"), [(3440, "3,440"), (0.9375, "0.94"), (1.0000001, "1"), (None, "?")]
)
def test_counts(count: float | None, shown: str) -> None:
    assert units.count(count) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [(236, "236 B"), (1024, "1.0 KiB"), (70_889_472, "67.6 MiB"), (2**41, "2.0 TiB"), (None, "?")],
)
def test_sizes(size: int | None, shown: str) -> None:
    assert units.size(size) == shown


@pytest.mark.parametrize(
    ("rate", "unit", "shown"),
    [
        (862.93e12, "FLOP", "862.9 TFLOP/s"),
        (421.35e9, "B", "421.4 GB/s"),
        (12.0, "B", "12.00 B/s"),
        (None, "B", "?"),
    ],
)
def test_rates(rate: float | None, unit: str, shown: str) -> None:
    assert units.rate(rate, unit) == shown


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.895, "89.5%"), (1.5, "150.0%"), (62.704, "63 times"), (1234.5, "1,234 times"), (None, "?")],
)
def test_a_bound_of_many_steps_is_no_percentage(share: float | None, said: str) -> None:
    assert units.part(share) == said


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.0, 6.94, "0 to 6.94 ms"),
        (0.0, 0.1, "0 to 0.10 ms"),
        (0.0131, 0.0347, "0.013 to 0.035 ms"),
        (0.0, 0.0039, "0 to 0.0039 ms"),
        (0.0, 0.0, "0 ms"),
        (0.158, 0.162, "0.16 ms"),
        (0.0, None, "0 to ? ms"),
    ],
)
def test_a_short_range_keeps_its_digits(low: float, high: float | None, said: str) -> None:
    assert units.span(low, high) == said
