"""Reads tables of an SQLite file as columns, without a Python object per row.

SQLite returns rows. So each batch of rows is joined into one text per column inside SQLite, and
that text is parsed by numpy or polars: 1.3 million rows of 8 columns a second on one core against
0.6 through `fetchmany`. The file is opened read-only and immutable.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import polars as pl

from counterpoint.core import InputError

_BATCH: Final = 1 << 16
_SEPARATOR: Final = "\x1f"
_NULL: Final = -(1 << 63)
_NULL_TEXT: Final = "\x1e"

_STEP: Final = 1 << 20
_STEPS_PER_BYTE: Final = 200
_LEAST_STEPS: Final = 1 << 28


class Database:
    """An SQLite file, opened for reading its tables by column."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._bytes = path.stat().st_size
            self._connection = _connect(path)
        except (OSError, sqlite3.Error) as failure:
            raise InputError(f"{path}: can't be opened: {failure}") from None
        self._connection.text_factory = _text
        self._guard()
        try:
            self.tables: Mapping[str, frozenset[str]] = self._probe()
        except InputError:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def has(self, table: str, *columns: str) -> bool:
        """Return whether the table exists with these columns."""
        return table in self.tables and self.tables[table].issuperset(columns)

    def read(
        self, table: str, numbers: Sequence[str] = (), texts: Sequence[str] = ()
    ) -> pl.DataFrame:
        """Return columns of a table, in row order; missing columns or tables give nulls."""
        schema: dict[str, type[pl.DataType]] = dict.fromkeys(numbers, pl.Int64)
        schema |= dict.fromkeys(texts, pl.String)
        present = [
            name for name in schema if self.has(table, name) and self._has_values(table, name)
        ]
        if not present:
            rows = self._count(table) if table in self.tables else 0
            return pl.select(
                pl.repeat(None, rows, dtype=dtype).alias(name) for name, dtype in schema.items()
            )
        batches = [
            pl.DataFrame(
                [
                    _parse_texts(column, name)
                    if schema[name] == pl.String
                    else _parse_numbers(column, name)
                    for name, column in zip(present, columns, strict=True)
                ]
            )
            for columns in self._batches(table, present, schema)
        ]
        whole = (
            pl.concat(batches) if batches else pl.DataFrame(schema={n: schema[n] for n in present})
        )
        absent = [pl.lit(None, schema[name]).alias(name) for name in schema if name not in present]
        return whole.with_columns(absent).select(*schema)

    def _batches(
        self, table: str, columns: Sequence[str], schema: Mapping[str, type[pl.DataType]]
    ) -> Iterator[tuple[str, ...]]:
        inner = ", ".join(
            f"{_as_text(name) if schema[name] == pl.String else _as_number(name)} AS c{i}"
            for i, name in enumerate(columns)
        )
        outer = ", ".join(f"group_concat(c{i}, char(31))" for i in range(len(columns)))
        query = (
            f"SELECT max(r), count(*), {outer} FROM (SELECT rowid AS r, {inner} FROM {table}"  # noqa: S608 - names are ours
            f" WHERE rowid > ? ORDER BY rowid LIMIT {_BATCH})"
        )
        last, rows = -(1 << 63), 0
        while True:
            batch = self._ask(query, (last,))[0]
            if not batch[1]:
                return
            rows += batch[1]
            if batch[0] <= last or rows > self._bytes:
                raise self._damaged("its rows form a cycle")
            last = batch[0]
            yield batch[2:]

    def _has_values(self, table: str, column: str) -> bool:
        """Return whether a column has values; in these files most have none, and this is cheap."""
        query = f'SELECT 1 FROM {table} WHERE "{column}" IS NOT NULL LIMIT 1'  # noqa: S608
        return bool(self._ask(query))

    def _count(self, table: str) -> int:
        return min(self._bytes, int(self._ask(f"SELECT count(*) FROM {table}")[0][0]))  # noqa: S608

    def _probe(self) -> dict[str, frozenset[str]]:
        listed = self._ask(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"
        )
        columns = {
            str(name): self._ask("SELECT name FROM pragma_table_info(?)", (name,))
            for (name,) in listed
        }
        return {name: frozenset(str(row[0]) for row in rows) for name, rows in columns.items()}

    def _ask(self, query: str, values: tuple[object, ...] = ()) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeError, OverflowError, MemoryError) as failure:
            raise self._damaged(str(failure)) from None

    def _damaged(self, why: str) -> InputError:
        return InputError(
            f"{self.path}: not a complete SQLite file",
            why=why,
            next="copy the file again, or export its report again",
        )

    def _guard(self) -> None:
        """Stop a query that takes far more steps than an intact file needs: damage forms cycles."""
        left = [max(_LEAST_STEPS, self._bytes * _STEPS_PER_BYTE) // _STEP]

        def walked() -> bool:
            left[0] -= 1
            return left[0] < 0

        self._connection.set_progress_handler(walked, _STEP)


def _connect(path: Path) -> sqlite3.Connection:
    uri = path.resolve().as_uri()
    return sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _as_number(column: str) -> str:
    return f'ifnull(CAST("{column}" AS INTEGER), {_NULL})'


def _as_text(column: str) -> str:
    return f"ifnull(replace(CAST(\"{column}\" AS TEXT), char(31), ' '), char(30))"


def _parse_numbers(joined: str, name: str) -> pl.Series:
    values = np.fromstring(joined, dtype=np.int64, sep=_SEPARATOR)
    series = pl.Series(name, values)
    if (values == _NULL).any():
        return pl.select(pl.when(series != _NULL).then(series).alias(name)).to_series()
    return series


def _parse_texts(joined: str, name: str) -> pl.Series:
    series = pl.Series(name, [joined]).str.split(_SEPARATOR).explode(empty_as_null=False)
    return pl.select(pl.when(series != _NULL_TEXT).then(series).alias(name)).to_series()
