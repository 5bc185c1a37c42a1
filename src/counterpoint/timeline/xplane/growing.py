"""A table that grows by batches of columns.

A thread of its own copies each batch behind the last while the next ones are decoded, so that the
columns are in one piece at the end, and a batch's memory is released early.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.timeline.model import Schema
from counterpoint.timeline.recording import joined_by_line
from counterpoint.timeline.xplane import native

KNOWN: Final = "_known"
"""End of the name of a column that says which values of another one are known."""

_TYPES: Final[Mapping[type[pl.DataType], type[np.generic]]] = {
    pl.UInt16: np.uint16,
    pl.UInt32: np.uint32,
    pl.Int64: np.int64,
}
_LEAST: Final = 1 << 12
"""Rows of a batch that is worth a thread, and of the smallest table."""


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of few values: each row has the number of its value."""

    values: NDArray[np.generic]
    code: NDArray[np.int64] | NDArray[np.uint32]


Column = NDArray[np.generic] | Coded | int


@cache
def _writer() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "counterpoint-join")


class GrowingTable:
    """A table to which batches are appended; `rows` is about how many there will be.

    Memory for rows that never come is not touched, and therefore costs nothing.
    """

    def __init__(self, schema: Schema, nullable: str | None = None) -> None:
        self._schema = schema
        self._nullable = nullable
        self._columns: dict[str, NDArray[np.generic]] = {
            name: np.empty(0, _TYPES[kind]) for name, kind in schema.items()
        }
        if nullable is not None:
            self._columns[nullable + KNOWN] = np.empty(0, np.bool_)
        self._row_bytes = sum(column.itemsize for column in self._columns.values())
        self._rows = 0
        self._room = 0
        self._pending = deque[Future[None]]()

    @property
    def size(self) -> int:
        """The bytes that the rows take."""
        return self._rows * self._row_bytes

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self._rows

    def run_keys(self, rows: NDArray[np.int64]) -> list[int]:
        """Return the run ids of the spans in these rows, 0 where there is none."""
        while self._pending:
            self._pending.popleft().result()
        keys: list[int] = self._columns["run_key"][rows].tolist() if len(rows) else []
        return keys

    def extend(self, rows: NDArray[np.int64], end_ps: NDArray[np.int64]) -> None:
        """Let the spans in these rows last until these times, if they end before."""
        while self._pending:
            self._pending.popleft().result()
        if len(rows):
            start, duration = self._columns["start_ps"], self._columns["dur_ps"]
            duration[rows] = np.maximum(duration[rows], end_ps - start[rows].astype(np.int64))

    def events_of(
        self, line: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the starts, the ends and the names of the rows of a line."""
        while self._pending:
            self._pending.popleft().result()
        own = np.flatnonzero(self._columns["line"][: self._rows] == line)
        start, took, name = (
            self._columns[column][own].astype(np.int64) for column in ("start_ps", "dur_ps", "name")
        )
        return start, start + took, name

    def expect(self, rows: int) -> None:
        """Make room for about so many more rows."""
        self._room = max(self._room, self._rows + rows)

    def append(self, rows: int, batch: Mapping[str, Column]) -> None:
        """Append a batch, whose columns must not change afterwards."""
        first, self._rows = self._rows, self._rows + rows
        room = self._room
        while self._pending and self._pending[0].done():
            self._pending.popleft().result()
        self._pending.append(_writer().submit(self._write, first, first + rows, room, batch))

    def frame(self, *, by_line: bool) -> pl.DataFrame:
        """Return the table; `by_line` if pieces of the same lines were appended in turn."""
        while self._pending:
            self._pending.popleft().result()
        if not self._rows:
            return pl.DataFrame(schema=self._schema)
        series = {name: pl.Series(name, self._columns[name][: self._rows]) for name in self._schema}
        if self._nullable is not None:
            known = self._columns[self._nullable + KNOWN][: self._rows]
            if not known.all():
                value = series[self._nullable]
                series[self._nullable] = value.to_frame().select(
                    pl.when(pl.Series(known)).then(value.name)
                )[value.name]
        self._columns.clear()
        frames = [pl.DataFrame(list(series.values()))]
        series.clear()
        return joined_by_line(frames) if by_line else frames[0]

    def _write(self, first: int, end: int, room: int, batch: Mapping[str, Column]) -> None:
        filled: list[native.Filling] = []
        for name, own in self._columns.items():
            column = own
            if end > len(column):
                column = np.empty(max(end, room, 2 * len(own), _LEAST), own.dtype)
                column[:first] = own[:first]
                self._columns[name] = column
            filled.append(_filling(column[first:end], batch[name]))
        native.fill(filled)


def _filling(rows: NDArray[np.generic], part: Column) -> native.Filling:
    if isinstance(part, Coded):
        return native.Filling(rows, part.values, part.code)
    if isinstance(part, int):
        return native.Filling(rows, np.array([part], rows.dtype))
    return native.Filling(rows, part)
