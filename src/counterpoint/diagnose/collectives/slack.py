"""Slack: how long a transfer may take before the device has to wait for it.

It is the time from its start until the device needs it (`arrivals`), minus the gaps in between in
which the device has no work and waits for other transfers, which come first and would remain. What
is left is work that does not depend on the network, and the gaps between its ops. A transfer that
takes no longer is hidden; one without slack delays everything behind it.

xprof measures transfers between slices in the same way (xspace_to_dcn_slack_analysis.cc: recv-done
minus send, minus the transfers between them), for one device and by means alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import EMPTY, Intervals, union
from counterpoint.diagnose.collectives.arrivals import arrivals, is_transfer
from counterpoint.diagnose.selection import PS_PER_MS, Selection, device_slices
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.model import Lane

SCHEMA: Final = {
    "program": pl.UInt16,
    "op": pl.String,
    "kind": pl.String,
    "executions": pl.UInt32,  # in all typical steps, on all devices
    "slack_ms": pl.Float64,  # median; null: not known, see `unknown`
    "slack_p5_ms": pl.Float64,
    "slack_p95_ms": pl.Float64,
    "no_slack_share": pl.Float64,  # of executions with less than NO_SLACK_PS
    "worst_device": pl.UInt16,  # of the smallest median; null: all equal
    "unknown": pl.String,  # why
}

NO_SLACK_PS: Final = 1_000_000
"""Less than a microsecond is the gap between two ops and no room for a transfer."""

_LOW, _HIGH = 0.05, 0.95
_NO_SCHEDULE: Final = "the profile holds no schedule of it, so where it is awaited is unknown"

Longs = NDArray[np.int64]


def slack_table(data: StepData) -> pl.DataFrame:
    """Return one row per collective and host transfer of a step, least slack first: SCHEMA."""
    executions = data.cached(slack_of_executions)
    keys = ["program", "name"]
    slack = pl.col("slack_ps")
    worst = (
        executions.group_by(*keys, "device")
        .agg(slack.median())
        .sort("slack_ps", "device")
        .group_by(keys)
        .agg(
            pl.when(slack.max() > slack.min()).then(pl.first("device")).alias("worst_device"),
        )
    )
    return (
        executions.group_by(keys)
        .agg(
            pl.len().cast(pl.UInt32).alias("executions"),
            (slack.median() / PS_PER_MS).alias("slack_ms"),
            (slack.quantile(_LOW, "linear") / PS_PER_MS).alias("slack_p5_ms"),
            (slack.quantile(_HIGH, "linear") / PS_PER_MS).alias("slack_p95_ms"),
            (slack < NO_SLACK_PS).mean().alias("no_slack_share"),
        )
        .join(worst, on=keys, how="left", nulls_equal=True)
        .join(_kinds(data.selection), on=keys, how="left", nulls_equal=True)
        .with_columns(unknown=pl.when(pl.col("slack_ms").is_null()).then(pl.lit(_NO_SCHEDULE)))
        .rename({"name": "op"})
        .select(*SCHEMA)
        .cast({**SCHEMA})
        .sort("slack_ms", "op", nulls_last=True)
    )


def slack_per_op(data: StepData) -> pl.DataFrame:
    """Return columns program, name, slack_ms: the median over executions; null if not known."""
    executions = data.cached(slack_of_executions)
    median = pl.col("slack_ps").median() / PS_PER_MS
    return executions.group_by("program", "name").agg(median.alias("slack_ms"))


def slack_of_executions(data: StepData) -> pl.DataFrame:
    """Return `arrivals` with `slack_ps` of each execution."""
    selection, spans = data.selection, data.spans
    executions = arrivals(selection, spans)
    waits = pl.Series("waits_ps", _other_waits(selection, spans, executions), pl.Int64)
    slack = pl.col("arrival_ps") - pl.col("start_ps") - pl.col("waits_ps")
    return executions.with_columns(waits).with_columns(slack_ps=slack.clip(0))


def _kinds(selection: Selection) -> pl.DataFrame:
    """Return the kind of each transfer: of collective, or of traffic with the host."""
    ops = selection.timeline.ops.filter(is_transfer())
    opcode = pl.col("opcode").str.replace("-(start|done|update)$", "")
    return (
        ops.with_columns(
            name=pl.coalesce("pair", "op", "name"),
            kind=pl.coalesce("collective", pl.lit("host ") + opcode),
        )
        .group_by("program", "name")
        .agg(pl.col("kind").drop_nulls().first())
    )


def _other_waits(selection: Selection, spans: pl.DataFrame, executions: pl.DataFrame) -> Longs:
    """Return for each row of `arrivals` the time before it with only other transfers running."""
    waits = np.zeros(len(executions), np.int64)
    role = _roles(selection)[spans["op"].to_numpy()]
    own_rows, start = device_slices(spans), spans["start_ps"].to_numpy()
    end = start + spans["dur_ps"].to_numpy()
    waiting = executions.with_row_index("at").filter(pl.col("arrival_ps") > pl.col("start_ps"))
    by_device = waiting.select(
        "device", "at", "start_ps", "end_ps", "arrival_ps", "has_done_span"
    ).sort("device")
    for device, rows in device_slices(by_device).items():
        own = own_rows.get(device, slice(0, 0))
        gaps = _waiting(role[own], start[own], end[own])
        waits[by_device["at"][rows].to_numpy()] = _waits_of(by_device[rows], *gaps)
    return waits


def _waits_of(rows: pl.DataFrame, waits: Intervals, of_one: Intervals) -> Longs:
    begin, arrival = rows["start_ps"].to_numpy(), rows["arrival_ps"].to_numpy()
    # On its own stream a transfer shows its whole duration, and only gaps beside it are gaps.
    itself = of_one.covered(begin, np.minimum(_end_of_gap(of_one, rows), arrival))
    by_done = rows["has_done_span"].to_numpy()
    return waits.covered(begin, arrival) - np.where(by_done, 0, itself)


def _end_of_gap(gaps: Intervals, rows: pl.DataFrame) -> Longs:
    """Return the end of each row's own span, or of the gap in which it ends."""
    end = rows["end_ps"].to_numpy()
    if not len(gaps):
        return end
    at = np.maximum(np.searchsorted(gaps.start, end, side="left") - 1, 0)
    return np.where(gaps.start[at] < end, np.maximum(gaps.end[at], end), end)


def _waiting(role: Longs, start: Longs, end: Longs) -> tuple[Intervals, Intervals]:
    """Return gaps in a device's work with any transfer running, and with exactly one running.

    A gap counts as a whole. The device waited for the transfer running at its end, although that
    one may have waited for another transfer first, in a queue that leaves no trace.
    """
    work, transfers = role == _WORK, role == _TRANSFER
    if not transfers.any():
        return EMPTY, EMPTY
    whole = union(
        start[work | transfers].min(keepdims=True), end[work | transfers].max(keepdims=True)
    )
    gaps = whole - union(start[work], end[work])
    opened = np.searchsorted(np.sort(start[transfers]), gaps.end, side="left")
    closed = np.searchsorted(np.sort(end[transfers]), gaps.start, side="right")
    count = opened - closed
    return _only(gaps, count >= 1), _only(gaps, count == 1)


def _only(gaps: Intervals, kept: NDArray[np.bool_]) -> Intervals:
    return union(gaps.start[kept], gaps.end[kept])


_WORK, _TRANSFER = 1, 2


def _roles(selection: Selection) -> Longs:
    """Return the role of each op: work, a transfer with spans of its own, or neither."""
    role = (
        pl.when(is_transfer() & ~pl.col("async_window"))
        .then(_TRANSFER)
        .when((pl.col("lane") == Lane.COMPUTE) | (pl.col("lane") == Lane.COPY))
        .then(pl.when(pl.col("async_window")).then(0).otherwise(_WORK))
        .otherwise(0)
    )
    return selection.timeline.ops.select(role.cast(pl.Int64).alias("role"))["role"].to_numpy()
