"""Slack: how long a collective may take before anything waits for it.

From its start to the moment when the device, computing what the schedule puts between the start
and the done, has nothing left to do but wait. A collective whose slack exceeds its duration is
hidden; one without slack delays everything behind it. Work in loops called between start and done
is not counted, so slack is a lower bound there.

The k-th execution of an instruction in a run belongs with the k-th of every other in its
computation: so work counts that began before the collective, which streams allow, and that of the
next step or turn does not.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from counterpoint.diagnose.selection import PS_PER_MS, Selection
from counterpoint.timeline.model import Lane


def slack_per_op(selection: Selection, spans: pl.DataFrame) -> pl.DataFrame:
    """Columns program, name, slack_ms: the median over executions; null without a schedule."""
    ops = selection.timeline.ops.with_row_index("row").with_columns(
        name=pl.coalesce("pair", "op", "name")
    )
    scheduled = ops.filter((pl.col("lane") == Lane.COLLECTIVE) & pl.col("position").is_not_null())
    starts = scheduled.filter(~pl.col("opcode").str.ends_with("-done"))
    executions = _executions(spans, ops)
    rows = [
        {"program": op["program"], "name": op["name"], "slack_ms": _slack(op, ops, executions)}
        for op in starts.iter_rows(named=True)
    ]
    schema = {"program": pl.UInt16, "name": pl.String, "slack_ms": pl.Float64}
    return (
        pl.DataFrame(rows, schema=schema)
        .group_by("program", "name")
        .agg(pl.col("slack_ms").median())
    )


_RUN = ("device", "run", "turn")


def _executions(spans: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Spans of instructions scheduled beside an async op, each with its turn within its run."""
    where = ops.filter(pl.col("done_position").is_not_null()).select("program", "computation")
    scheduled = ops.join(where.unique(), on=["program", "computation"])["row"].to_list()
    return (
        spans.filter(pl.col("op").is_in(scheduled))
        .sort("start_ps")
        .select(
            "device",
            "run",
            "op",
            "start_ps",
            end_ps=pl.col("start_ps") + pl.col("dur_ps"),
            turn=pl.int_range(pl.len()).over("device", "run", "op"),
        )
    )


def _slack(op: dict[str, Any], ops: pl.DataFrame, executions: pl.DataFrame) -> float | None:
    if op["done_position"] is None:
        return 0.0  # synchronous: the device waits from the start on
    between = ops.filter(
        (pl.col("program") == op["program"])
        & (pl.col("computation") == op["computation"])
        & (pl.col("position") > op["position"])
        & (pl.col("position") < op["done_position"])
        & pl.col("lane").is_in([Lane.COMPUTE, Lane.COPY])
        & ~pl.col("async_window")
    )["row"].to_list()
    work = (
        executions.filter(pl.col("op").is_in(between))
        .group_by(*_RUN)
        .agg(pl.col("end_ps").max().alias("work_end_ps"))
    )
    starts = executions.filter(pl.col("op") == op["row"])
    until_idle = starts.join(work, on=_RUN, how="left", nulls_equal=True).select(
        (pl.col("work_end_ps") - pl.col("start_ps")).fill_null(0).clip(lower_bound=0)
    )
    median = until_idle.to_series().median()
    return float(median) / PS_PER_MS if isinstance(median, int | float) else None
