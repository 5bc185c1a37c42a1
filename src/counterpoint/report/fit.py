"""Fit a table into a width: drop columns that matter least, shorten names, wrap the rest.

Without a width (a pipe, a file) a table keeps every column and every character, so that `grep`
finds what it looks for. In a width the columns of rank 0 always stay, numbers stay whole, and names
that differ look different: a cell that can't be shortened that way takes several lines.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from counterpoint.report.document import (
    Column,
    ColumnKind,
    TextTable,
)
from counterpoint.report.places import (
    ELLIPSIS,
    distinct,
    without_beginning,
    without_end,
    without_middle,
)

GAP: Final = 2


_LEAST: Final = {
    ColumnKind.NAME: 20,
    ColumnKind.LABEL: 20,
    ColumnKind.PLACE: 26,
    ColumnKind.WORD: 24,
}
"""Characters that a cell keeps before a column is dropped; words are wrapped, not shortened.

A sentence stays whole until no more columns can be dropped.
"""
_BARELY: Final = {
    **dict.fromkeys((ColumnKind.NAME, ColumnKind.LABEL, ColumnKind.PLACE, ColumnKind.WORD), 8),
    ColumnKind.NUMBER: 1,
    ColumnKind.SENTENCE: 24,
}
"""Characters that a cell keeps once no more columns can be dropped; numbers stay whole."""
_BROKEN: Final = 16
"""Minimum characters per line of a word that has to be broken."""
_HANG: Final = "  "
"""Prefix of the continuation lines of a wrapped name, which keeps them from looking like rows."""
_BETWEEN: Final = frozenset("_-./,=: ")
"""Separators between the parts of a name: a line ends after one of them."""


def fit(table: TextTable, width: int | None, ellipsis: str = ELLIPSIS) -> TextTable:
    """Return the table fitted to this number of characters; a wrapped cell has several lines."""
    if width is None:
        return table
    while _least_width(table) > width and any(column.rank for column in table.columns):
        table = _without_last(table)
    return _shortened(table, width, ellipsis)


def widths(table: TextTable) -> list[int]:
    """Return the width of each column."""
    return [max(_longest(cell) for cell in column) for column in _by_column(table)]


def _by_column(table: TextTable) -> list[tuple[str, ...]]:
    """Return the title and cells of each column."""
    rows = [tuple(column.title for column in table.columns), *table.rows]
    if table.total is not None:
        rows.append(table.total)
    return list(zip(*rows, strict=True))


def _longest(cell: str) -> int:
    return max(map(len, cell.split("\n")))


def _least_width(table: TextTable) -> int:
    """Return the minimum width of the table with all of its columns."""
    return sum(_least(table, _LEAST)) + GAP * (len(table.columns) - 1)


def _least(table: TextTable, least: Mapping[ColumnKind, int]) -> list[int]:
    """Return the minimum width of each column; in columns of numbers only the title is wrapped."""
    return [
        min(width, _narrowest(column, cells, least))
        for column, cells, width in zip(
            table.columns, _by_column(table), widths(table), strict=True
        )
    ]


def _narrowest(column: Column, cells: Sequence[str], least: Mapping[ColumnKind, int]) -> int:
    if column.kind not in least:
        return max(map(_longest, cells))
    unbroken = cells if column.kind is ColumnKind.WORD else cells[:1]
    words = max((len(word) for cell in unbroken for word in cell.split()), default=0)
    whole = max(map(len, cells[1:]), default=0) if column.kind is ColumnKind.NUMBER else 0
    return max(words, whole, least[column.kind])


def _without_last(table: TextTable) -> TextTable:
    """Return the table without the column of the highest rank; of several, the last."""
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


def _shortened(table: TextTable, width: int, ellipsis: str) -> TextTable:
    """Shorten paths first, then names and words, then everything as far as possible."""
    room = widths(table)
    for least, kinds in (
        (_LEAST, (ColumnKind.PLACE,)),
        (_LEAST, (ColumnKind.PLACE, ColumnKind.NAME, ColumnKind.LABEL)),
        (_LEAST, (*_LEAST,)),
        (_BARELY, (*_BARELY,)),
    ):
        columns = enumerate(zip(table.columns, _least(table, least), strict=True))
        _narrow(room, {at: size for at, (column, size) in columns if column.kind in kinds}, width)
    # Finally, break long words: better a broken flag name than a line that is too long.
    words = [at for at, column in enumerate(table.columns) if column.kind is ColumnKind.WORD]
    _narrow(room, dict.fromkeys(words, _BROKEN), width)
    titled = tuple(
        replace(column, title=_folded(column.title, limit))
        for column, limit in zip(table.columns, room, strict=True)
    )
    named = next(
        (at for at, column in enumerate(table.columns) if column.kind is not ColumnKind.NUMBER),
        None,
    )
    by_column = zip(table.columns, _by_column(table), room, strict=True)
    cells = [
        _cells(column, cells[1:], limit, ellipsis, _HANG if at == named else "")
        for at, (column, cells, limit) in enumerate(by_column)
    ]
    rows = tuple(zip(*cells, strict=True))
    summed = table.total is not None
    return replace(
        table,
        columns=titled,
        rows=rows[:-1] if summed else rows,
        total=rows[-1] if summed else None,
    )


def _narrow(room: list[int], least: Mapping[int, int], width: int) -> None:
    """Narrow the widest of these columns until the table fits or none can shrink further."""
    while sum(room) + GAP * (len(room) - 1) > width:
        giving = [at for at in least if room[at] > least[at]]
        if not giving:
            return
        room[max(giving, key=lambda at: room[at])] -= 1


def _cells(column: Column, cells: Sequence[str], limit: int, ellipsis: str, hang: str) -> list[str]:
    match column.kind:
        case ColumnKind.NUMBER:
            return [*cells]
        case ColumnKind.WORD | ColumnKind.LABEL:
            return [_folded(cell, limit, hang) for cell in cells]
        case ColumnKind.NAME:
            short = distinct(cells, limit, ellipsis, without_middle)
        case ColumnKind.PLACE:
            short = distinct(cells, limit, ellipsis, without_beginning)
        case ColumnKind.SENTENCE:
            short = distinct(cells, limit, ellipsis, without_end)
    return [_folded(cell, limit, hang) for cell in short]


def _folded(cell: str, limit: int, hang: str = "") -> str:
    """Wrap the cell between words if it has several, otherwise between the parts of a name.

    All lines but the first begin with `hang`.
    """
    if len(cell) <= limit:
        return cell
    within = limit - len(hang)
    lines = textwrap.wrap(cell, within, break_long_words=False, break_on_hyphens=False)
    return f"\n{hang}".join(part for line in lines for part in _parts(line, within))


def _parts(word: str, limit: int) -> Iterator[str]:
    """Split a long word, at the end of one of its parts if that is not too far."""
    while len(word) > limit:
        ends = [at for at in range(limit // 2, limit + 1) if word[at - 1] in _BETWEEN]
        cut = ends[-1] if ends else limit
        yield word[:cut]
        word = word[cut:]
    yield word
