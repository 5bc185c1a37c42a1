"""Slack: how long a transfer may take before the device has to wait for it.

From its start to the moment when the device comes to need it (`arrivals`), less the gaps in between
in which it has no work and waits for other transfers: they come first, and would not give way. What
is left is work that does not depend on the network, and the gaps between its ops. A transfer that
takes no longer is hidden; one without slack delays all behind it.

xprof counts transfers between slices in the same way (xspace_to_dcn_slack_analysis.cc: recv-done
less send, less the transfers between them), of one device and by means alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import EMPTY, Intervals, union
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.collectives.arrivals import arrivals, is_transfer
from counterpoint.diagnose.selection import PS_PER_MS, Selection, device_slices
from counterpoint.timeline import Lane

SCHEMA: Final = {
    "program": pl.UInt16,
    "op": pl.String,
    "kind": pl.String,
    "executions": pl.UInt32,  # in all typical steps, on all devices
    "slack_ms": pl.Float64,  # median; null: not known, see `unknown`
    "slack_p5_ms": pl.Float64,
    "slack_p95_ms": pl.Float64,
    "no_slack_share": pl.Float64,  # of executions with less than NO_SLACK_PS
    "worst_device": pl.UInt16,  # of the smallest median; null: they are alike
    "unknown": pl.String,  # why
}

NO_SLACK_PS: Final = 1_000_000
"""What is shorter, a microsecond, is the gap between two ops and no room for a transfer."""

_LOW, _HIGH = 0.05, 0.95
_NO_SCHEDULE: Final = "nothing tells where it is awaited: the profile holds no schedule of it"

Longs = NDArray[np.int64]


def slack_table(case: Case) -> pl.DataFrame:
    """One row per collective and host transfer of a step, the least slack first: SCHEMA."""
    return slacks(case.selection, case.spans)


def slacks(selection: Selection, spans: pl.DataFrame) -> pl.DataFrame:
    """The same of a selection."""
    found = slack_of_executions(selection, spans)
    keys = ["program", "name"]
    slack = pl.col("slack_ps")
    worst = (
        found.group_by(*keys, "device")
        .agg(slack.median())
        .sort("slack_ps", "device")
        .group_by(keys)
        .agg(
            pl.when(slack.max() > slack.min()).then(pl.first("device")).alias("worst_device"),
        )
    )
    return (
        found.group_by(keys)
        .agg(
            pl.len().cast(pl.UInt32).alias("executions"),
            (slack.median() / PS_PER_MS).alias("slack_ms"),
            (slack.quantile(_LOW, "linear") / PS_PER_MS).alias("slack_p5_ms"),
            (slack.quantile(_HIGH, "linear") / PS_PER_MS).alias("slack_p95_ms"),
            (slack < NO_SLACK_PS).mean().alias("no_slack_share"),
        )
        .join(worst, on=keys, how="left", nulls_equal=True)
        .join(_kinds(selection), on=keys, how="left", nulls_equal=True)
        .with_columns(unknown=pl.when(pl.col("slack_ms").is_null()).then(pl.lit(_NO_SCHEDULE)))
        .rename({"name": "op"})
        .select(*SCHEMA)
        .cast({**SCHEMA})
        .sort("slack_ms", "op", nulls_last=True)
    )


def slack_per_op(selection: Selection, spans: pl.DataFrame) -> pl.DataFrame:
    """Columns program, name, slack_ms: the median over executions; null where it is not known."""
    found = slack_of_executions(selection, spans)
    median = pl.col("slack_ps").median() / PS_PER_MS
    return found.group_by("program", "name").agg(median.alias("slack_ms"))


def slack_of_executions(selection: Selection, spans: pl.DataFrame) -> pl.DataFrame:
    """`arrivals` with `slack_ps` of each execution."""
    found = arrivals(selection, spans)
    waits = pl.Series("waits_ps", _other_waits(selection, spans, found), pl.Int64)
    slack = pl.col("arrival_ps") - pl.col("start_ps") - pl.col("waits_ps")
    return found.with_columns(waits).with_columns(slack_ps=slack.clip(0))


def _kinds(selection: Selection) -> pl.DataFrame:
    """Of each transfer, what kind it is: of collective, or of traffic with the host."""
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


def _other_waits(selection: Selection, spans: pl.DataFrame, found: pl.DataFrame) -> Longs:
    """Of each row of `arrivals`, the time before it in which only other transfers go on."""
    waits = np.zeros(len(found), np.int64)
    role = _roles(selection)[spans["op"].to_numpy()]
    own_rows, start = device_slices(spans), spans["start_ps"].to_numpy()
    end = start + spans["dur_ps"].to_numpy()
    asked = found.with_row_index("at").filter(pl.col("arrival_ps") > pl.col("start_ps"))
    for (one,), rows in asked.group_by("device"):
        mine = own_rows.get(int(one), slice(0, 0))
        waiting = _waiting(role[mine], start[mine], end[mine])
        waits[rows["at"].to_numpy()] = _waits_of(rows, *waiting)
    return waits


def _waits_of(rows: pl.DataFrame, waits: Intervals, of_one: Intervals) -> Longs:
    begin, arrival = rows["start_ps"].to_numpy(), rows["arrival_ps"].to_numpy()
    # On a stream of its own a transfer shows its whole course, and gaps beside it alone are gaps.
    itself = of_one.covered(begin, np.minimum(_end_of_gap(of_one, rows), arrival))
    told = rows["told_by_done"].to_numpy()
    return waits.covered(begin, arrival) - np.where(told, 0, itself)


def _end_of_gap(gaps: Intervals, rows: pl.DataFrame) -> Longs:
    """Where each row's own span ends, or the gap in which that is."""
    end = rows["end_ps"].to_numpy()
    if not len(gaps):
        return end
    at = np.maximum(np.searchsorted(gaps.start, end, side="left") - 1, 0)
    return np.where(gaps.start[at] < end, np.maximum(gaps.end[at], end), end)


def _waiting(role: Longs, start: Longs, end: Longs) -> tuple[Intervals, Intervals]:
    """Gaps in a device's work: those in which any transfer goes on, and in which exactly one does.

    A gap counts whole. What goes on at its end is what the device waited for, though that may
    have waited for another transfer first, in a queue that leaves no trace.
    """
    works, carries = role == _WORK, role == _TRANSFER
    if not carries.any():
        return EMPTY, EMPTY
    whole = union(
        start[works | carries].min(keepdims=True), end[works | carries].max(keepdims=True)
    )
    gaps = whole - union(start[works], end[works])
    opened = np.searchsorted(np.sort(start[carries]), gaps.end, side="left")
    closed = np.searchsorted(np.sort(end[carries]), gaps.start, side="right")
    count = opened - closed
    return _only(gaps, count >= 1), _only(gaps, count == 1)


def _only(gaps: Intervals, kept: NDArray[np.bool_]) -> Intervals:
    return union(gaps.start[kept], gaps.end[kept])


_WORK, _TRANSFER = 1, 2


def _roles(selection: Selection) -> Longs:
    """Of each op, whether its spans are work, or a transfer as the device itself shows it."""
    role = (
        pl.when(is_transfer() & ~pl.col("async_window"))
        .then(_TRANSFER)
        .when((pl.col("lane") == Lane.COMPUTE) | (pl.col("lane") == Lane.COPY))
        .then(pl.when(pl.col("async_window")).then(0).otherwise(_WORK))
        .otherwise(0)
    )
    return selection.timeline.ops.select(role.cast(pl.Int64).alias("role"))["role"].to_numpy()
