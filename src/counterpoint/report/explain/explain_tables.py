"""The tables of `explain`: the ops of a median step, and the cost of its collectives.

A column without any known value is dropped, and named above the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import polars as pl

from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.attribution import PHASES
from counterpoint.diagnose.explanation import Explanation
from counterpoint.diagnose.grouping import GROUPINGS, Grouping
from counterpoint.report import units
from counterpoint.report.document import (
    CellColumn,
    Prose,
    Section,
    Tone,
    names,
    numbers,
    places,
    table,
    words,
)
from counterpoint.report.places import distinct, distinct_paths, short_path
from counterpoint.timeline.kernel_names import kernel_labels

Row = dict[str, Any]

_LONGEST_NAME: Final = 72


def known_columns(columns: Sequence[CellColumn]) -> list[CellColumn]:
    """Return the columns with any known value."""
    return [column for column in columns if any(cell != units.UNKNOWN for cell in column.cells)]


def ops_section(explanation: Explanation, top: int, by: Grouping | None = None) -> Section:
    """Return the ops with the most self time, grouped by a familiar unit if there are many."""
    ops = explanation.ops
    if not len(ops):
        return Section("Top ops", "none ran in a step")
    by = by or explanation.finest_grouping(top)
    grouped = ops if by == "op" else explanation.ops_by(by)
    rows, rest = grouped.head(top).to_dicts(), grouped[top:]
    columns = _of_ops(rows) if by == "op" else _of_groups(rows, by)
    columns[0] = replace(columns[0], total=f"all {len(grouped):,}")
    at = 1 if by == "category" else 2
    columns[at:at] = [
        numbers("self ms", _ms(rows), total=units.column([float(grouped["self_ms"].sum())])[0]),
        numbers("share", [units.percent(row["share"]) for row in rows]),
    ]
    if len(rest):
        others_cells = {
            columns[0].title: counted_noun(len(rest), "other"),
            "self ms": _ms([*rows, {"self_ms": float(rest["self_ms"].sum())}])[-1],
            "share": units.percent(float(rest["share"].sum())),
        }
        columns = [replace(column, others=others_cells.get(column.title, "")) for column in columns]
    whole = float(ops["self_ms"].sum())
    share = sum(row["self_ms"] for row in rows) / whole if whole else None
    summary = f"{len(rows)} of {len(grouped):,}, {units.percent(share, 0)} of the time in ops"
    others = ", ".join(grouping for grouping in GROUPINGS if grouping != by)
    title = "Top ops" if by == "op" else f"Top ops by {by}"
    before = [Prose(_by_category(ops), Tone.QUIET)] if by != "category" else []
    return _section(title, f"{summary}; --by {others}", columns, *before)


def _ms(rows: list[Row]) -> list[str]:
    return units.column(row["self_ms"] for row in rows)


def _of_ops(rows: list[Row]) -> list[CellColumn]:
    return [
        names("op", _short(rows)),
        words("category", _texts(rows, "category")),
        words("phase", _texts(rows, "phase"), rank=1),
        numbers("count", [units.count(row["count"]) for row in rows], rank=2),
        places("source", _places(rows, "source")),
        places("scope", _places(rows, "scope"), rank=3),
    ]


def _of_groups(rows: list[Row], by: Grouping) -> list[CellColumn]:
    groups = [f"no {by}" if row["name"] is None else row["name"] for row in rows]
    first = [words(by, groups)]
    if by != "category":
        category = words("category", _texts(rows, "category"), rank=1)
        first = [places(by, distinct_paths(groups)), category]
    return [
        *first,
        numbers("ops", [f"{row['ops']:,}" for row in rows], rank=2),
        numbers("count", [units.count(row["count"]) for row in rows], rank=3),
        words("phases", [_phases(row) for row in rows], rank=4),
        names("longest op", _short(rows, "longest"), rank=5),
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
        names("op", _short(rows), total=f"all {len(collectives):,}"),
        words("kind", _texts(rows, "kind"), rank=5),
        numbers("size", [units.size(row["bytes"]) for row in rows]),
        numbers("ranks", [units.count(r["group_size"]) for r in rows], rank=3),
        numbers("count", [units.count(row["count"]) for row in rows], rank=3),
        numbers("time", ms("total_ms"), total=total("total_ms")),
        numbers("wait", ms("wait_ms"), rank=1, total=total("wait_ms")),
        numbers("exposed", ms("exposed_ms"), total=per_step),
        numbers("hidden", [units.percent(row["hidden_share"], 0) for row in rows]),
        numbers("alg GB/s", rounded("algbw_gbps"), rank=6),
        numbers("bus GB/s", rounded("busbw_gbps"), rank=1),
        places("source", _places(rows, "source"), rank=7),
    ]
    summary = f"{len(rows)} of {len(collectives):,}, most exposed first; times in ms per step"
    return _section("Collectives", summary, columns)


def _section(title: str, summary: str, columns: list[CellColumn], *before: Prose) -> Section:
    known = known_columns(columns)
    unknown = [column.title for column in columns if column not in known]
    if unknown:
        summary += f"; unknown: {', '.join(unknown)}"
    return Section(title, summary, (*before, table(*known)))


def _short(rows: list[Row], name: str = "op") -> list[str]:
    """Return the names, shortened: those of C++ kernels would push every other column off."""
    return distinct(kernel_labels(_texts(rows, name)), _LONGEST_NAME)


def _texts(rows: list[Row], name: str) -> list[str]:
    return [str(row[name]) if row[name] is not None else units.UNKNOWN for row in rows]


def _places(rows: list[Row], name: str) -> list[str]:
    return [short_path(str(row[name])) if row[name] is not None else units.UNKNOWN for row in rows]
