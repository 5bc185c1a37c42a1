"""The tables of `explain`: the ops of a median step, and the cost of its collectives.

A column without any known value is dropped, and named above the table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.attribution import PHASES
from counterpoint.diagnose.explanation import Explanation
from counterpoint.diagnose.grouping import GROUPINGS, Grouping
from counterpoint.report import units
from counterpoint.report.columns import field_columns, known_columns, total_of, with_others
from counterpoint.report.document import CellColumn, Prose, Section, Tone, places, table, words
from counterpoint.report.explain.explain_json import CollectiveJson, OpGroupJson, OpJson
from counterpoint.report.places import distinct_paths

Row = dict[str, Any]


def ops_section(explanation: Explanation, top: int, by: Grouping | None = None) -> Section:
    """Return the ops with the most self time, grouped by a familiar unit if there are many."""
    ops = explanation.ops
    if not len(ops):
        return Section("Top ops", "none ran in a step")
    by = by or explanation.finest_grouping(top)
    grouped = ops if by == "op" else explanation.ops_by(by)
    rows, rest = grouped.head(top).to_dicts(), grouped[top:]
    kind = OpJson if by == "op" else OpGroupJson
    totals = {"self_ms": total_of(kind, "self_ms", float(grouped["self_ms"].sum()))}
    columns = field_columns(kind, rows, totals=totals)
    if by != "op":
        columns = _of_groups(columns, rows, by)
    columns[0] = replace(columns[0], total=f"all {len(grouped):,}")
    if len(rest):
        count = {columns[0].title: counted_noun(len(rest), "other")}
        sums = {name: float(rest[name].sum()) for name in ("self_ms", "share")}
        columns = with_others(columns, kind, count, rows, sums)
    whole = float(ops["self_ms"].sum())
    share = sum(row["self_ms"] for row in rows) / whole if whole else None
    summary = f"{len(rows)} of {len(grouped):,}, {units.percent(share, 0)} of the time in ops"
    others = ", ".join(grouping for grouping in GROUPINGS if grouping != by)
    title = "Top ops" if by == "op" else f"Top ops by {by}"
    before = [Prose(_by_category(ops), Tone.QUIET)] if by != "category" else []
    return _section(title, f"{summary}; --by {others}", columns, *before)


def _of_groups(columns: list[CellColumn], rows: list[Row], by: Grouping) -> list[CellColumn]:
    """Return the columns of groups behind that of their names."""
    groups = [f"no {by}" if row["name"] is None else row["name"] for row in rows]
    phases = words("phases", [_phases(row) for row in rows], rank=4)
    if by == "category":
        return [words(by, groups), *columns[1:], phases]
    return [places(by, distinct_paths(groups)), *columns, phases]


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
    totals = {
        name: _total(collectives[name], name) for name in ("total_ms", "wait_ms", "exposed_ms")
    }
    totals["op"] = f"all {len(collectives):,}"
    columns = field_columns(CollectiveJson, rows, totals=totals)
    summary = f"{len(rows)} of {len(collectives):,}, most exposed first; times in ms per step"
    return _section("Collectives", summary, columns)


def _section(title: str, summary: str, columns: list[CellColumn], *before: Prose) -> Section:
    known = known_columns(columns)
    unknown = [column.title for column in columns if column not in known]
    if unknown:
        summary += f"; unknown: {', '.join(unknown)}"
    return Section(title, summary, (*before, table(*known)))


def _total(values: pl.Series, name: str) -> str:
    known = values.drop_nulls()
    return total_of(CollectiveJson, name, float(known.sum()) if len(known) else None)
