"""The tables of `explain`: the ops of a median step, and the cost of each collective.

A column without any known value is dropped and named above the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from counterpoint.diagnose import GROUPINGS, PHASES, Explanation, Grouping
from counterpoint.report import units
from counterpoint.report.document import (
    Column,
    ColumnKind,
    Prose,
    Section,
    TextTable,
    Tone,
    printable,
)
from counterpoint.report.places import distinct, distinct_paths, short_path

Row = dict[str, Any]

_LONGEST_NAME: Final = 72


@dataclass(frozen=True, slots=True)
class _OpColumn:
    """A column with its cells, the cell of the total row, and whether any of it is known."""

    column: Column
    cells: list[str]
    total: str = ""
    others: str | None = None  # the cell for rows that are not shown

    @property
    def known(self) -> bool:
        return any(cell != units.UNKNOWN for cell in self.cells)

    @property
    def all_cells(self) -> list[str]:
        return self.cells if self.others is None else [*self.cells, self.others]


def ops_section(explanation: Explanation, top: int, by: Grouping | None = None) -> Section:
    """Return the ops with the most self time, grouped by a familiar unit if there are many."""
    ops = explanation.ops
    if not len(ops):
        return Section("Top ops", "none ran in a step")
    by = by or explanation.finest_grouping(top)
    table = ops if by == "op" else explanation.ops_by(by)
    rows, rest = table.head(top).to_dicts(), table[top:]
    columns = _of_ops(rows) if by == "op" else _of_groups(rows, by)
    columns[0] = replace(columns[0], total=f"all {len(table):,}")
    at = 1 if by == "category" else 2
    columns[at:at] = [
        _OpColumn(
            Column("self ms", ColumnKind.NUMBER),
            _ms(rows),
            units.column([float(table["self_ms"].sum())])[0],
        ),
        _OpColumn(
            Column("share", ColumnKind.NUMBER), [units.percent(row["share"]) for row in rows]
        ),
    ]
    if len(rest):
        others_cells = {
            columns[0].column.title: f"{len(rest):,} others",
            "self ms": units.column([float(rest["self_ms"].sum())])[0],
            "share": units.percent(float(rest["share"].sum())),
        }
        columns = [
            replace(column, others=others_cells.get(column.column.title, "")) for column in columns
        ]
    whole = float(ops["self_ms"].sum())
    share = sum(row["self_ms"] for row in rows) / whole if whole else None
    summary = f"{len(rows)} of {len(table):,}, {units.percent(share, 0)} of the time in ops"
    others = ", ".join(grouping for grouping in GROUPINGS if grouping != by)
    title = "Top ops" if by == "op" else f"Top ops by {by}"
    before = [Prose(_by_category(ops), Tone.QUIET)] if by != "category" else []
    return _section(title, f"{summary}; --by {others}", columns, *before)


def _ms(rows: list[Row]) -> list[str]:
    return units.column(row["self_ms"] for row in rows)


def _of_ops(rows: list[Row]) -> list[_OpColumn]:
    return [
        _OpColumn(Column("op", ColumnKind.NAME), _names(rows)),
        _OpColumn(Column("category", ColumnKind.WORD), _texts(rows, "category")),
        _OpColumn(Column("phase", ColumnKind.WORD, rank=1), _texts(rows, "phase")),
        _OpColumn(
            Column("count", ColumnKind.NUMBER, rank=2), [units.count(row["count"]) for row in rows]
        ),
        _OpColumn(Column("source", ColumnKind.PLACE), _places(rows, "source")),
        _OpColumn(Column("scope", ColumnKind.PLACE, rank=3), _places(rows, "scope")),
    ]


def _of_groups(rows: list[Row], by: Grouping) -> list[_OpColumn]:
    names = [f"no {by}" if row["name"] is None else printable(row["name"]) for row in rows]
    shown = names if by == "category" else distinct_paths(names)
    if by == "category":
        first = [_OpColumn(Column(by, ColumnKind.WORD), shown)]
    else:
        first = [
            _OpColumn(Column(by, ColumnKind.PLACE), shown),
            _OpColumn(Column("category", ColumnKind.WORD, rank=1), _texts(rows, "category")),
        ]
    return [
        *first,
        _OpColumn(Column("ops", ColumnKind.NUMBER, rank=2), [f"{row['ops']:,}" for row in rows]),
        _OpColumn(
            Column("count", ColumnKind.NUMBER, rank=3), [units.count(row["count"]) for row in rows]
        ),
        _OpColumn(Column("phases", ColumnKind.WORD, rank=4), [_phases(row) for row in rows]),
        _OpColumn(Column("longest op", ColumnKind.NAME, rank=5), _names(rows, "longest")),
    ]


def _phases(row: Row) -> str:
    """Return the shares of the phases that take more than a hundredth of the time."""
    whole = row["self_ms"]
    shares = {phase: row[f"{phase}_ms"] / whole if whole else 0.0 for phase in PHASES}
    shown = [
        f"{phase} {units.percent(share, 0)}" for phase, share in shares.items() if share >= 0.01
    ]
    return ", ".join(shown) if shown != ["other 100%"] else units.UNKNOWN


def _by_category(ops: pl.DataFrame) -> str:
    """Return the shares of the categories that take more than a hundredth of the time in ops."""
    total = float(ops["self_ms"].sum())
    summed = ops.group_by("category").agg(pl.col("self_ms").sum())
    shares = [
        f"{category} {units.percent(ms / total, 0)}"
        for category, ms in summed.sort("self_ms", "category", descending=[True, False]).rows()
        if total and ms / total >= 0.01
    ]
    return "   ".join(shares)


def collectives_section(collectives: pl.DataFrame, top: int) -> Section:
    """Return the collectives with the most exposed time."""
    if not len(collectives):
        return Section("Collectives", "none ran in a step")
    rows = collectives.head(top).to_dicts()

    def ms(name: str) -> list[str]:
        return units.column(row[name] for row in rows)

    def total(name: str) -> str:
        known = collectives[name].drop_nulls()
        return units.column([float(known.sum())])[0] if len(known) else units.UNKNOWN

    def rounded(name: str) -> list[str]:
        return units.column((row[name] for row in rows), 1)

    per_step = total("exposed_ms")
    columns = [
        _OpColumn(Column("op", ColumnKind.NAME), _names(rows), f"all {len(collectives):,}"),
        _OpColumn(Column("kind", ColumnKind.WORD, rank=5), _texts(rows, "kind")),
        _OpColumn(Column("size", ColumnKind.NUMBER), [units.size(row["bytes"]) for row in rows]),
        _OpColumn(
            Column("ranks", ColumnKind.NUMBER, rank=3), [units.count(r["group_size"]) for r in rows]
        ),
        _OpColumn(
            Column("count", ColumnKind.NUMBER, rank=3), [units.count(row["count"]) for row in rows]
        ),
        _OpColumn(Column("time", ColumnKind.NUMBER), ms("total_ms"), total("total_ms")),
        _OpColumn(Column("wait", ColumnKind.NUMBER, rank=1), ms("wait_ms"), total("wait_ms")),
        _OpColumn(Column("exposed", ColumnKind.NUMBER), ms("exposed_ms"), per_step),
        _OpColumn(
            Column("hidden", ColumnKind.NUMBER),
            [units.percent(row["hidden_share"], 0) for row in rows],
        ),
        _OpColumn(Column("alg GB/s", ColumnKind.NUMBER, rank=6), rounded("algbw_gbps")),
        _OpColumn(Column("bus GB/s", ColumnKind.NUMBER, rank=1), rounded("busbw_gbps")),
        _OpColumn(Column("source", ColumnKind.PLACE, rank=7), _places(rows, "source")),
    ]
    summary = f"{len(rows)} of {len(collectives):,}, most exposed first; times in ms per step"
    return _section("Collectives", summary, columns)


def _section(title: str, summary: str, told: list[_OpColumn], *before: Prose) -> Section:
    shown = [column for column in told if column.known]
    unknown = [column.column.title for column in told if not column.known]
    if unknown:
        summary += f"; unknown: {', '.join(unknown)}"
    has_total = any(column.total for column in shown)
    table = TextTable(
        columns=tuple(column.column for column in shown),
        rows=tuple(zip(*(column.all_cells for column in shown), strict=True)),
        total=tuple(column.total for column in shown) if has_total else None,
    )
    return Section(title, summary, (*before, table))


def _names(rows: list[Row], name: str = "op") -> list[str]:
    """Return the names, shortened: those of C++ kernels would push every other column off."""
    return distinct(_texts(rows, name), _LONGEST_NAME)


def _texts(rows: list[Row], name: str) -> list[str]:
    return [printable(str(row[name])) if row[name] is not None else units.UNKNOWN for row in rows]


def _places(rows: list[Row], name: str) -> list[str]:
    return [
        printable(short_path(str(row[name]))) if row[name] is not None else units.UNKNOWN
        for row in rows
    ]
