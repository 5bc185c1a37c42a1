"""Large collectives at an end of the step, where nothing is left that could run beside them.

Gradients merged into one collective can only be sent when the last of them is there, and gathered
weights that are one collective let the first layer wait for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.timeline.model import Lane

_AT_THE_END: Final = 0.1
"""Share of the computing time that may lie between a collective and the end of its program: the
optimizer's update stands there."""

_ONCE: Final = 1.5
"""Executions per step, on average, up to which one is no part of a loop."""

_GIANT: Final = 0.02
"""Share of the step that it must hold up."""


@dataclass(frozen=True, slots=True)
class AtEnd:
    """`where` is "end" or "start"; `beside_ms` the compute between it and that end, in a run."""

    where: str
    beside_ms: float


def at_ends(case: Case, rows: list[dict[str, Any]]) -> Mapping[str, AtEnd]:
    """The exposed ones of `rows` (with `own_ms`) that stand at an end, by name."""
    giants = [
        row
        for row in rows
        if row["program"] == case.timeline.step_program
        and row["own_ms"] > _GIANT * case.step_ms
        and row["own_ms"] > 0.5 * row["total_ms"]
        and row["count"] <= _ONCE
    ]
    if not giants:
        return {}
    compute = _around(case, [row["op"] for row in giants])
    found: dict[str, AtEnd] = {}
    for name, runs, before, after in compute.iter_rows():
        whole = before + after
        if after <= _AT_THE_END * whole:
            found[name] = AtEnd("end", after / runs / PS_PER_MS)
        elif before <= _AT_THE_END * whole:
            found[name] = AtEnd("start", before / runs / PS_PER_MS)
    return found


def _around(case: Case, names: list[str]) -> pl.DataFrame:
    """Per name, its runs on all devices, and picoseconds of computing before and after it there.

    Windows need not be as many as the runs that they show parts of.
    """
    ops = case.timeline.ops.with_row_index("row").with_columns(
        shown=pl.coalesce("pair", "op", "name")
    )
    spans = case.spans.filter(pl.col("run").is_not_null())
    own = ops.filter(pl.col("shown").is_in(names) & (pl.col("lane") == Lane.COLLECTIVE))
    mine = (
        spans.join(own.select("row", "shown"), left_on="op", right_on="row")
        .group_by("device", "run", "shown")
        .agg(
            pl.col("start_ps").min().alias("from_ps"),
            (pl.col("start_ps") + pl.col("dur_ps")).max().alias("to_ps"),
        )
    )
    work = ops.filter(pl.col("lane") == Lane.COMPUTE)["row"]
    computing = spans.filter(pl.col("op").is_in(work.implode())).select(
        "device", "run", "start_ps", "dur_ps"
    )
    return (
        mine.join(computing, on=["device", "run"])
        .group_by("shown")
        .agg(
            pl.struct("device", "run").n_unique().alias("runs"),
            pl.col("dur_ps").filter(pl.col("start_ps") < pl.col("from_ps")).sum().alias("before"),
            pl.col("dur_ps").filter(pl.col("start_ps") >= pl.col("to_ps")).sum().alias("after"),
        )
        .sort("shown")
    )
