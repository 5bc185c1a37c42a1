"""Tables that grow: what is appended comes back in order, also from growing columns."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.timeline.model import Schema
from counterpoint.timeline.xplane import native
from counterpoint.timeline.xplane.growing import KNOWN, Coded, GrowingTable

SCHEMA: Schema = {"line": pl.UInt32, "device": pl.UInt16, "start_ps": pl.Int64, "run": pl.Int64}
ROW = 4 + 2 + 8 + 8 + 1


def append(table: GrowingTable, rows: int, first: int, *, narrow: bool) -> None:
    numbers = np.arange(first, first + rows, dtype=np.int64)
    code = (numbers % 2).astype(np.uint32) if narrow else numbers % 2
    table.append(
        rows,
        {
            "line": 7,
            "device": Coded(np.array([5, 6], np.uint16), code),
            "start_ps": numbers,
            "run": numbers * 10,
            "run" + KNOWN: numbers % 3 != 0,
        },
    )


def expected(count: int) -> dict[str, list[int | None]]:
    return {
        "line": [7] * count,
        "device": [5 + number % 2 for number in range(count)],
        "start_ps": [*range(count)],
        "run": [number * 10 if number % 3 else None for number in range(count)],
    }


@given(
    st.lists(st.integers(1, 3000), max_size=6),
    st.integers(0, 9000),
    st.booleans(),
    st.booleans(),
)
def test_batches_come_back_in_order(
    sizes: list[int], expects: int, narrow: bool, compiled: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(native, "_library", lambda: None)
        table = GrowingTable(SCHEMA, nullable="run")
        table.expect(expects)
        first = 0
        for size in sizes:
            append(table, size, first, narrow=narrow)
            first += size
        assert table.size == first * ROW
        frame = table.frame(by_line=False)
    assert frame.schema == SCHEMA
    assert frame.to_dict(as_series=False) == expected(first)


def test_a_column_whose_values_are_all_known_has_no_nulls() -> None:
    table = GrowingTable({"run": pl.Int64}, nullable="run")
    table.append(2, {"run": np.array([1, 2]), "run" + KNOWN: np.array([True, True])})
    assert table.frame(by_line=False)["run"].null_count() == 0


def test_pieces_of_a_line_are_put_together() -> None:
    table = GrowingTable({"line": pl.UInt32, "start_ps": pl.Int64, "dur_ps": pl.Int64})
    for line, start in ((1, 10), (0, 20), (1, 30)):
        table.append(1, {"line": line, "start_ps": np.array([start]), "dur_ps": np.array([5])})
    assert table.frame(by_line=True).rows() == [(0, 20, 5), (1, 10, 5), (1, 30, 5)]


def test_a_failure_while_writing_is_not_lost() -> None:
    table = GrowingTable({"start_ps": pl.Int64})
    table.append(2, {"start_ps": np.array([1, 2, 3])})
    with pytest.raises(ValueError, match="broadcast"):
        table.frame(by_line=False)
