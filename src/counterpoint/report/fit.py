"""Fit a table into a width: leave out what matters least, then shorten names and places.

Without a width (a pipe, a file) a table keeps every column and every character, so that `grep`
finds what it looks for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from counterpoint.report.document import Column, Kind, Table
from counterpoint.report.places import ELLIPSIS, without_beginning, without_middle

GAP: Final = 2

_LEAST: Final = {Kind.NAME: 20, Kind.PLACE: 26}
"""Characters that a name or place keeps before a column is left out."""

_BARELY: Final = {Kind.NAME: 8, Kind.PLACE: 8}
"""Characters that it keeps when nothing more can be left out."""


def fit(table: Table, width: int | None, ellipsis: str = ELLIPSIS) -> Table:
    """The table as it fits into so many characters."""
    if width is None:
        return table
    while _least_width(table) > width and any(column.rank for column in table.columns):
        table = _without_last(table)
    return _shortened(table, width, ellipsis)


def widths(table: Table) -> list[int]:
    """The width of each column."""
    rows = [tuple(column.title for column in table.columns), *table.rows]
    if table.total is not None:
        rows.append(table.total)
    return [max(len(row[at]) for row in rows) for at in range(len(table.columns))]


def _least_width(table: Table) -> int:
    """How narrow the table can be made without leaving out a column."""
    needed = [
        min(width, _LEAST.get(column.kind, width))
        for column, width in zip(table.columns, widths(table), strict=True)
    ]
    return sum(needed) + GAP * (len(needed) - 1)


def _without_last(table: Table) -> Table:
    """Without the column of the highest rank; of several, the last."""
    rank = max(column.rank for column in table.columns)
    dropped = max(at for at, column in enumerate(table.columns) if column.rank == rank)

    def kept(row: tuple[str, ...]) -> tuple[str, ...]:
        return row[:dropped] + row[dropped + 1 :]

    return replace(
        table,
        columns=table.columns[:dropped] + table.columns[dropped + 1 :],
        rows=tuple(kept(row) for row in table.rows),
        total=None if table.total is None else kept(table.total),
    )


def _shortened(table: Table, width: int, ellipsis: str) -> Table:
    """Places give way first, then names; then both as far as they can."""
    room = widths(table)
    for kinds, least in (
        ((Kind.PLACE,), _LEAST),
        (tuple(_LEAST), _LEAST),
        (tuple(_BARELY), _BARELY),
    ):
        spare = {
            at: least[column.kind]
            for at, column in enumerate(table.columns)
            if column.kind in kinds
        }
        _narrow(room, spare, width)
    return replace(
        table,
        rows=tuple(
            tuple(
                _cell(column, cell, limit, ellipsis)
                for column, cell, limit in zip(table.columns, row, room, strict=True)
            )
            for row in table.rows
        ),
    )


def _narrow(room: list[int], least: dict[int, int], width: int) -> None:
    """Take from the widest of these columns until the table fits, or none has more to give."""
    while sum(room) + GAP * (len(room) - 1) > width:
        giving = [at for at in least if room[at] > least[at]]
        if not giving:
            return
        room[max(giving, key=lambda at: room[at])] -= 1


def _cell(column: Column, cell: str, limit: int, ellipsis: str) -> str:
    if column.kind is Kind.NAME:
        return without_middle(cell, limit, ellipsis)
    return without_beginning(cell, limit, ellipsis) if column.kind is Kind.PLACE else cell
