"""The tables of `explain`: what a median step spends on ops, and what each collective costs.

A column in which nothing is known is left out, and named above the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from counterpoint.diagnose.metrics import GROUPINGS, PHASES, By, finest, grouped
from counterpoint.report import units
from counterpoint.report.document import Column, Kind, Prose, Section, Table, Tone, printable
from counterpoint.report.explain.findings import distinct, short_path, unlike_paths

Row = dict[str, Any]

_LONGEST_NAME: Final = 72


@dataclass(frozen=True, slots=True)
class _Told:
    """A column with its cells, the cell of the last row, and whether anything in it is known."""

    column: Column
    cells: list[str]
    total: str = ""
    others: str | None = None  # of the rows that are not shown

    @property
    def known(self) -> bool:
        return any(cell != units.UNKNOWN for cell in self.cells)

    @property
    def all_cells(self) -> list[str]:
        return self.cells if self.others is None else [*self.cells, self.others]


def ops_section(ops: pl.DataFrame, top: int, by: By | None = None) -> Section:
    """The ops with most self time, summed up by what the user knows where they are many."""
    if not len(ops):
        return Section("Top ops", "none ran in a step")
    by = by or finest(ops, top)
    table = ops if by == "op" else grouped(ops, by)
    rows, rest = table.head(top).to_dicts(), table[top:]
    told = _of_ops(rows) if by == "op" else _of_groups(rows, by)
    told[0] = replace(told[0], total=f"all {len(table):,}")
    at = 1 if by == "category" else 2
    told[at:at] = [
        _Told(
            Column("self ms", Kind.NUMBER),
            _ms(rows),
            units.column([float(table["self_ms"].sum())])[0],
        ),
        _Told(Column("share", Kind.NUMBER), [units.percent(row["share"]) for row in rows]),
    ]
    if len(rest):
        of = {
            told[0].column.title: f"{len(rest):,} others",
            "self ms": units.column([float(rest["self_ms"].sum())])[0],
            "share": units.percent(float(rest["share"].sum())),
        }
        told = [replace(it, others=of.get(it.column.title, "")) for it in told]
    whole = float(ops["self_ms"].sum())
    share = sum(row["self_ms"] for row in rows) / whole if whole else None
    summary = f"{len(rows)} of {len(table):,}, {units.percent(share, 0)} of the time in ops"
    others = ", ".join(it for it in GROUPINGS if it != by)
    title = "Top ops" if by == "op" else f"Top ops by {by}"
    before = [Prose(_by_category(ops), Tone.QUIET)] if by != "category" else []
    return _section(title, f"{summary}; --by {others}", told, *before)


def _ms(rows: list[Row]) -> list[str]:
    return units.column(row["self_ms"] for row in rows)


def _of_ops(rows: list[Row]) -> list[_Told]:
    return [
        _Told(Column("op", Kind.NAME), _names(rows)),
        _Told(Column("category", Kind.WORD), _texts(rows, "category")),
        _Told(Column("phase", Kind.WORD, rank=1), _texts(rows, "phase")),
        _Told(Column("count", Kind.NUMBER, rank=2), [units.count(row["count"]) for row in rows]),
        _Told(Column("source", Kind.PLACE), _places(rows, "source")),
        _Told(Column("scope", Kind.PLACE, rank=3), _places(rows, "scope")),
    ]


def _of_groups(rows: list[Row], by: By) -> list[_Told]:
    names = [f"no {by} told" if row["name"] is None else printable(row["name"]) for row in rows]
    shown = names if by == "category" else unlike_paths(names)
    if by == "category":
        first = [_Told(Column(by, Kind.WORD), shown)]
    else:
        first = [
            _Told(Column(by, Kind.PLACE), shown),
            _Told(Column("category", Kind.WORD, rank=1), _texts(rows, "category")),
        ]
    return [
        *first,
        _Told(Column("ops", Kind.NUMBER, rank=2), [f"{row['ops']:,}" for row in rows]),
        _Told(Column("count", Kind.NUMBER, rank=3), [units.count(row["count"]) for row in rows]),
        _Told(Column("phases", Kind.WORD, rank=4), [_phases(row) for row in rows]),
        _Told(Column("longest op", Kind.NAME, rank=5), _names(rows, "longest")),
    ]


def _phases(row: Row) -> str:
    """Of what is more than a hundredth of its time, the shares."""
    whole = row["self_ms"]
    shares = {phase: row[f"{phase}_ms"] / whole if whole else 0.0 for phase in PHASES}
    told = [f"{phase} {units.percent(of, 0)}" for phase, of in shares.items() if of >= 0.01]
    return ", ".join(told) if told != ["other 100%"] else units.UNKNOWN


def _by_category(ops: pl.DataFrame) -> str:
    """Which kinds of work the time in ops goes to, those above a hundredth."""
    total = float(ops["self_ms"].sum())
    summed = ops.group_by("category").agg(pl.col("self_ms").sum())
    shares = [
        f"{category} {units.percent(ms / total, 0)}"
        for category, ms in summed.sort("self_ms", "category", descending=[True, False]).rows()
        if total and ms / total >= 0.01
    ]
    return "   ".join(shares)


def collectives_section(collectives: pl.DataFrame, top: int) -> Section:
    """The collectives with most exposed time."""
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
    told = [
        _Told(Column("op", Kind.NAME), _names(rows), f"all {len(collectives):,}"),
        _Told(Column("kind", Kind.WORD, rank=5), _texts(rows, "kind")),
        _Told(Column("size", Kind.NUMBER), [units.size(row["bytes"]) for row in rows]),
        _Told(Column("ranks", Kind.NUMBER, rank=3), [units.count(r["group_size"]) for r in rows]),
        _Told(Column("count", Kind.NUMBER, rank=3), [units.count(row["count"]) for row in rows]),
        _Told(Column("time", Kind.NUMBER), ms("total_ms"), total("total_ms")),
        _Told(Column("wait", Kind.NUMBER, rank=1), ms("wait_ms"), total("wait_ms")),
        _Told(Column("exposed", Kind.NUMBER), ms("exposed_ms"), per_step),
        _Told(
            Column("hidden", Kind.NUMBER), [units.percent(row["hidden_share"], 0) for row in rows]
        ),
        _Told(Column("alg GB/s", Kind.NUMBER, rank=6), rounded("algbw_gbps")),
        _Told(Column("bus GB/s", Kind.NUMBER, rank=1), rounded("busbw_gbps")),
        _Told(Column("source", Kind.PLACE, rank=7), _places(rows, "source")),
    ]
    summary = f"{len(rows)} of {len(collectives):,}, the most exposed first; times in ms per step"
    return _section("Collectives", summary, told)


def _section(title: str, summary: str, told: list[_Told], *before: Prose) -> Section:
    kept = [one for one in told if one.known]
    unknown = [one.column.title for one in told if not one.known]
    if unknown:
        summary += f"; not known: {', '.join(unknown)}"
    has_total = any(one.total for one in kept)
    table = Table(
        columns=tuple(one.column for one in kept),
        rows=tuple(zip(*(one.all_cells for one in kept), strict=True)),
        total=tuple(one.total for one in kept) if has_total else None,
    )
    return Section(title, summary, (*before, table))


def _names(rows: list[Row], name: str = "op") -> list[str]:
    """Instructions have short names; those of C++ kernels would push everything off the page."""
    return distinct(_texts(rows, name), _LONGEST_NAME)


def _texts(rows: list[Row], name: str) -> list[str]:
    return [printable(str(row[name])) if row[name] is not None else units.UNKNOWN for row in rows]


def _places(rows: list[Row], name: str) -> list[str]:
    return [
        printable(short_path(str(row[name]))) if row[name] is not None else units.UNKNOWN
        for row in rows
    ]
