"""`calibrate` as a Document: each scalar before and after, and errors on what was not seen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from counterpoint.report import units
from counterpoint.report.document import (
    Column,
    Document,
    Fact,
    Facts,
    Kind,
    Prose,
    Section,
    Table,
    Tone,
    printable,
)
from counterpoint.report.explain.findings import (
    ELLIPSIS,
    distinct,
    without_beginning,
    without_end,
    without_middle,
)
from counterpoint.workflow.calibration import Calibration, Fit, StepFit


def calibration_document(found: Calibration, next: str, target: str) -> Document:
    """The report on a calibration."""
    sections = [_scalars(found, target)]
    if found.steps:
        sections.append(_steps(found))
    return Document(
        sections=tuple(sections),
        legend="errors are of predictions, against measured time",
        next=printable(next),
    )


def _scalars(found: Calibration, target: str) -> Section:
    table = Table(
        columns=(
            Column("scalar", Kind.WORD),
            Column("before", Kind.NUMBER),
            Column("fitted", Kind.NUMBER),
            Column("measured ms", Kind.NUMBER, rank=1),
            Column("error before", Kind.NUMBER),
            Column("after", Kind.NUMBER),
            Column("not seen", Kind.NUMBER),
            Column("rests on", Kind.NAME, rank=2),
        ),
        rows=tuple(_fit(fit) for fit in found.fits),
    )
    notes = tuple(Fact("note", printable(note), Tone.QUIET) for note in found.notes)
    known = sum(fit.fitted for fit in found.fits)
    summary = f"{known} of {len(found.fits)} fitted on {found.chip} ({target})"
    blocks = (table, Facts(notes)) if notes else (table,)
    return Section("Calibration", printable(summary), blocks)


def _fit(fit: Fit) -> tuple[str, ...]:
    if not fit.fitted:
        kept = f"{fit.before.value:.3g}"
        return (fit.name, kept, "kept", *[units.UNKNOWN] * 4, printable(fit.how))
    return (
        fit.name,
        f"{fit.before.value:.3g}",
        f"{fit.after.value:.3g}",
        units.column([fit.measured_s * 1e3], 2)[0],
        units.percent(fit.error_before),
        units.percent(fit.error_after),
        units.percent(fit.unseen),
        printable(fit.how),
    )


def _steps(found: Calibration) -> Section:
    table = Table(
        columns=(
            Column("step", Kind.NAME),
            Column("measured ms", Kind.NUMBER),
            Column("before", Kind.NUMBER),
            Column("after", Kind.NUMBER),
            Column("not seen", Kind.NUMBER),
        ),
        rows=tuple(
            (
                printable(it.name),
                units.column([it.measured_s * 1e3])[0],
                _off(it, it.before_s),
                _off(it, it.after_s),
                _off(it, it.unseen_s),
            )
            for it in found.steps
        ),
    )
    how = "Not seen: predicted by scalars that were fitted to the other steps alone."
    return Section("Steps", "measured, and how far predictions are off", (table, Prose(how)))


def _off(step: StepFit, predicted_s: float | None) -> str:
    if predicted_s is None or not step.measured_s:
        return units.UNKNOWN
    return f"{predicted_s / step.measured_s - 1:+.1%}"


GAP: Final = 2

_LEAST: Final = {Kind.NAME: 20, Kind.LABEL: 20, Kind.PLACE: 26, Kind.WORD: 24}
"""Characters that a cell keeps before a column is left out; words are folded, not shortened.

A sentence stays whole until no more columns can be left out.
"""

_BARELY: Final = {
    **dict.fromkeys((Kind.NAME, Kind.LABEL, Kind.PLACE, Kind.WORD), 8),
    Kind.NUMBER: 1,
    Kind.SENTENCE: 24,
}
"""Characters that it keeps when nothing more can be left out; numbers stay whole."""

_BROKEN: Final = 16
"""Characters that are left in a line of a word that has to be broken."""

_HANG: Final = "  "
"""What further lines of a folded name begin with, so that none looks like a row of its own."""

_BETWEEN: Final = frozenset("_-./,=: ")
"""What stands between the parts of a name: a line ends behind it."""


def fit(table: Table, width: int | None, ellipsis: str = ELLIPSIS) -> Table:
    """The table as it fits into so many characters; a folded cell has several lines."""
    if width is None:
        return table
    while _least_width(table) > width and any(column.rank for column in table.columns):
        table = _without_last(table)
    return _shortened(table, width, ellipsis)


def widths(table: Table) -> list[int]:
    """The width of each column."""
    return [max(_longest(cell) for cell in column) for column in _by_column(table)]


def _by_column(table: Table) -> list[tuple[str, ...]]:
    """Titles and cells of each column."""
    rows = [tuple(column.title for column in table.columns), *table.rows]
    if table.total is not None:
        rows.append(table.total)
    return list(zip(*rows, strict=True))


def _longest(cell: str) -> int:
    return max(map(len, cell.split("\n")))


def _least_width(table: Table) -> int:
    """How narrow the table can be made without leaving out a column."""
    return sum(_least(table, _LEAST)) + GAP * (len(table.columns) - 1)


def _least(table: Table, least: Mapping[Kind, int]) -> list[int]:
    """How narrow each column can be made: of numbers the title alone is folded."""
    return [
        min(width, _narrowest(column, cells, least))
        for column, cells, width in zip(
            table.columns, _by_column(table), widths(table), strict=True
        )
    ]


def _narrowest(column: Column, cells: Sequence[str], least: Mapping[Kind, int]) -> int:
    if column.kind not in least:
        return max(map(_longest, cells))
    kept = cells if column.kind is Kind.WORD else cells[:1]
    words = max((len(word) for cell in kept for word in cell.split()), default=0)
    whole = max(map(len, cells[1:]), default=0) if column.kind is Kind.NUMBER else 0
    return max(words, whole, least[column.kind])


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
    """Places give way first, then names and words; then all as far as they can."""
    room = widths(table)
    for least, kinds in (
        (_LEAST, (Kind.PLACE,)),
        (_LEAST, (Kind.PLACE, Kind.NAME, Kind.LABEL)),
        (_LEAST, (*_LEAST,)),
        (_BARELY, (*_BARELY,)),
    ):
        columns = enumerate(zip(table.columns, _least(table, least), strict=True))
        _narrow(room, {at: size for at, (it, size) in columns if it.kind in kinds}, width)
    # At last a long word is broken: of a flag's name that is better than a line that is too long.
    words = [at for at, column in enumerate(table.columns) if column.kind is Kind.WORD]
    _narrow(room, dict.fromkeys(words, _BROKEN), width)
    titled = tuple(
        replace(column, title=_folded(column.title, limit))
        for column, limit in zip(table.columns, room, strict=True)
    )
    named = next((at for at, it in enumerate(table.columns) if it.kind is not Kind.NUMBER), None)
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
    """Take from the widest of these columns until the table fits, or none has more to give."""
    while sum(room) + GAP * (len(room) - 1) > width:
        giving = [at for at in least if room[at] > least[at]]
        if not giving:
            return
        room[max(giving, key=lambda at: room[at])] -= 1


def _cells(column: Column, cells: Sequence[str], limit: int, ellipsis: str, hang: str) -> list[str]:
    match column.kind:
        case Kind.NUMBER:
            return [*cells]
        case Kind.WORD | Kind.LABEL:
            return [_folded(cell, limit, hang) for cell in cells]
        case Kind.NAME:
            short = distinct(cells, limit, ellipsis, without_middle)
        case Kind.PLACE:
            short = distinct(cells, limit, ellipsis, without_beginning)
        case Kind.SENTENCE:
            short = distinct(cells, limit, ellipsis, without_end)
    return [_folded(cell, limit, hang) for cell in short]


def _folded(cell: str, limit: int, hang: str = "") -> str:
    """The cell in lines: between words where it has some, else between the parts of a name.

    All but the first begin with `hang`.
    """
    if len(cell) <= limit:
        return cell
    within = limit - len(hang)
    lines = textwrap.wrap(cell, within, break_long_words=False, break_on_hyphens=False)
    return f"\n{hang}".join(part for line in lines for part in _parts(line, within))


def _parts(word: str, limit: int) -> Iterator[str]:
    """A long word in pieces that end where a part of it ends, if one is not too long."""
    while len(word) > limit:
        ends = [at for at in range(limit // 2, limit + 1) if word[at - 1] in _BETWEEN]
        cut = ends[-1] if ends else limit
        yield word[:cut]
        word = word[cut:]
    yield word
