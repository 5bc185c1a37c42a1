"""The tables of `explain`: what a median step spends on ops, and what each collective costs.

A column in which nothing is known is left out, and named above the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from counterpoint.report import units
from counterpoint.report.document import Column, Kind, Prose, Section, Table, Tone, printable
from counterpoint.report.places import short_path, without_middle

Row = dict[str, Any]

_LONGEST_NAME: Final = 72


@dataclass(frozen=True, slots=True)
class _Told:
    """A column with its cells, the cell of the last row, and whether anything in it is known."""

    column: Column
    cells: list[str]
    total: str = ""

    @property
    def known(self) -> bool:
        return any(cell != units.UNKNOWN for cell in self.cells)


def ops_section(ops: pl.DataFrame, top: int) -> Section:
    """The ops with most self time."""
    if not len(ops):
        return Section("Top ops", "none ran in a step")
    rows = ops.head(top).to_dicts()
    told = [
        _Told(Column("op", Kind.NAME), _names(rows)),
        _Told(Column("category", Kind.WORD), _texts(rows, "category")),
        _Told(Column("phase", Kind.WORD, rank=1), _texts(rows, "phase")),
        _Told(Column("self ms", Kind.NUMBER), units.column(row["self_ms"] for row in rows)),
        _Told(Column("share", Kind.NUMBER), [units.percent(row["share"]) for row in rows]),
        _Told(Column("count", Kind.NUMBER, rank=2), [units.count(row["count"]) for row in rows]),
        _Told(Column("source", Kind.PLACE), _places(rows, "source")),
        _Told(Column("scope", Kind.PLACE, rank=3), _places(rows, "scope")),
    ]
    whole = float(ops["self_ms"].sum())
    share = float(ops.head(top)["self_ms"].sum()) / whole if whole else None
    summary = f"{len(rows)} of {len(ops):,}, {units.percent(share, 0)} of the time in ops"
    return _section("Top ops", summary, told, Prose(_by_category(ops), Tone.QUIET))


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
        _Told(Column("median", Kind.NUMBER), ms("median_ms")),
        _Told(Column("transfer", Kind.NUMBER, rank=4), ms("transfer_ms")),
        _Told(Column("wait", Kind.NUMBER, rank=1), ms("wait_ms"), total("wait_ms")),
        _Told(Column("exposed", Kind.NUMBER), ms("exposed_ms"), per_step),
        _Told(
            Column("hidden", Kind.NUMBER), [units.percent(row["hidden_share"], 0) for row in rows]
        ),
        _Told(Column("slack", Kind.NUMBER, rank=2), ms("slack_ms")),
        _Told(Column("alg GB/s", Kind.NUMBER, rank=6), rounded("algbw_gbps")),
        _Told(Column("bus GB/s", Kind.NUMBER, rank=1), rounded("busbw_gbps")),
        _Told(Column("source", Kind.PLACE, rank=7), _places(rows, "source")),
    ]
    summary = f"{len(rows)} of {len(collectives):,}, the most exposed first; times in ms"
    return _section("Collectives", summary, told)


def _section(title: str, summary: str, told: list[_Told], *before: Prose) -> Section:
    kept = [one for one in told if one.known]
    unknown = [one.column.title for one in told if not one.known]
    if unknown:
        summary += f"; not known: {', '.join(unknown)}"
    has_total = any(one.total for one in kept)
    table = Table(
        columns=tuple(one.column for one in kept),
        rows=tuple(zip(*(one.cells for one in kept), strict=True)),
        total=tuple(one.total for one in kept) if has_total else None,
    )
    return Section(title, summary, (*before, table))


def _names(rows: list[Row]) -> list[str]:
    """Instructions have short names; those of C++ kernels would push everything off the page."""
    return [without_middle(name, _LONGEST_NAME) for name in _texts(rows, "op")]


def _texts(rows: list[Row], name: str) -> list[str]:
    return [printable(str(row[name])) if row[name] is not None else units.UNKNOWN for row in rows]


def _places(rows: list[Row], name: str) -> list[str]:
    return [
        printable(short_path(str(row[name]))) if row[name] is not None else units.UNKNOWN
        for row in rows
    ]
