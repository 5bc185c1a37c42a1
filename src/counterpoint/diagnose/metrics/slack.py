"""Slack: how long a collective may take before anything waits for it.

From its start to the moment when the device, computing what the schedule puts between the start
and the done, has nothing left to do but wait. A collective whose slack exceeds its duration is
hidden; one without slack delays everything behind it. Work in loops called between start and done
is not counted, so slack is a lower bound there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.diagnose.selection import PS_PER_MS, Selection
from counterpoint.timeline.model import Lane


def slack_per_op(selection: Selection, spans: pl.DataFrame) -> pl.DataFrame:
    """Columns program, name, slack_ms: the median over executions; null without a schedule."""
    ops = selection.timeline.ops.with_row_index("row").with_columns(
        name=pl.coalesce("pair", "op", "name")
    )
    scheduled = ops.filter((pl.col("lane") == Lane.COLLECTIVE) & pl.col("position").is_not_null())
    rows = [
        {"program": op["program"], "name": op["name"], "slack_ms": _slack(op, ops, spans)}
        for op in scheduled.filter(~pl.col("opcode").str.ends_with("-done")).iter_rows(named=True)
    ]
    schema = {"program": pl.UInt16, "name": pl.String, "slack_ms": pl.Float64}
    return (
        pl.DataFrame(rows, schema=schema)
        .group_by("program", "name")
        .agg(pl.col("slack_ms").median())
    )


def _slack(op: dict[str, Any], ops: pl.DataFrame, spans: pl.DataFrame) -> float | None:
    if op["done_position"] is None:
        return 0.0  # synchronous: the device waits from the start on
    between = ops.filter(
        (pl.col("program") == op["program"])
        & (pl.col("computation") == op["computation"])
        & (pl.col("position") > op["position"])
        & (pl.col("position") < op["done_position"])
        & pl.col("lane").is_in([Lane.COMPUTE, Lane.COPY])
        & ~pl.col("async_window")
    )["row"].to_numpy()
    op_of, device = spans["op"].to_numpy(), spans["device"].to_numpy()
    start = spans["start_ps"].to_numpy()
    end = start + spans["dur_ps"].to_numpy()
    mine, work = op_of == op["row"], np.isin(op_of, between)
    found = [
        _until_idle(start[mine & here], start[work & here], end[work & here])
        for here in (device == one for one in np.unique(device[mine]))
    ]
    return float(np.median(np.concatenate(found))) / PS_PER_MS if found else None


def _until_idle(
    begin: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.int64]:
    """From each collective's start to the end of the last work before its next start."""
    if not len(start):
        return np.zeros(len(begin), np.int64)
    following = np.append(begin[1:], np.iinfo(np.int64).max)
    last = np.searchsorted(start, following, side="left") - 1
    reached = np.where((last >= 0) & (start[last] >= begin), end[last], begin)
    return reached - begin
