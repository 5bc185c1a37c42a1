"""Stragglers: devices that come late to collectives, and make the others of their group wait.

Lateness is a device's start minus the median start of its group, in one meeting. Between hosts it
is only as good as their clocks: what lies below their uncertainty is nothing. Who comes last in
most meetings is persistent, who does so now and then is sporadic; `caused_ms` is what the others
would not wait if it came with the last but one.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.metrics.collectives import executions_of
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.timeline.meetings import number_collectives, stays
from counterpoint.timeline.model import Lane
from counterpoint.timeline.ranks import with_groups

SCHEMA: Final = {
    "device": pl.UInt16,
    "host": pl.UInt16,
    "meetings": pl.UInt32,
    "late_ms": pl.Float64,  # median; negative: early
    "p95_ms": pl.Float64,
    "last_share": pl.Float64,  # of its meetings, in which it came last
    "caused_ms": pl.Float64,  # per median step: what its group waits for it alone
    "slower_compute_ms": pl.Float64,  # per step, its own compute less that of the median device
    "kind": pl.String,  # "persistent", "sporadic", "none"
}

_MOSTLY: Final = 0.5
"""Share of meetings in which a persistent straggler comes last; by chance it is one in the group's
size, which is this only in a group of two."""

_WORTH: Final = 0.005
"""Share of the step that one must cost: somebody always comes last."""


def stragglers(case: Case) -> pl.DataFrame:
    """One row per device that met others in the typical steps, the dearest first."""
    late = lateness(case)
    if not len(late):
        return pl.DataFrame(schema=SCHEMA)
    worth = _WORTH * case.step_ms
    ms = case.selection.scale * case.selection.occurrences
    found = late.group_by("device").agg(
        pl.len().alias("meetings"),
        (pl.col("late_ps").median() / PS_PER_MS).alias("late_ms"),
        (pl.col("late_ps").quantile(0.95) / PS_PER_MS).alias("p95_ms"),
        pl.col("last").mean().alias("last_share"),
        pl.col("caused_ps").sum().alias("caused_ps"),
    )
    windows = case.selection.windows.group_by("device").agg(pl.len().alias("windows"))
    persistent = (pl.col("last_share") > _MOSTLY) & (pl.col("late_ms") > 0)
    return (
        found.join(windows, on="device")
        .join(_slower(case), on="device", how="left")
        .with_columns(
            host=_host(case),
            caused_ms=pl.col("caused_ps") * ms / pl.col("windows"),
        )
        .with_columns(
            kind=pl.when(pl.col("caused_ms") <= worth)
            .then(pl.lit("none"))
            .when(persistent)
            .then(pl.lit("persistent"))
            .otherwise(pl.lit("sporadic"))
        )
        .select(*SCHEMA)
        .cast({**SCHEMA})
        .sort("caused_ms", "device", descending=[True, False])
    )


def lateness(case: Case) -> pl.DataFrame:
    """One row per device and meeting: `collective`, `step`, `turn`, `late_ps`, `last`, `caused_ps`.

    Only meetings of devices on clocks that were brought together.
    """
    timeline = case.timeline
    ops = timeline.ops.with_row_index("row").filter(pl.col("lane") == Lane.COLLECTIVE)
    found = executions_of(case.spans, ops)
    if not len(found) or len(timeline.devices) < 2:
        return pl.DataFrame()
    grouped = with_groups(timeline, number_collectives(ops), stays(found, "step"), "step")
    meeting = ["collective", "step", "turn", "group", "clock"]
    met = (
        grouped.filter(pl.col("group").is_not_null())
        .with_columns(host=_host(case))
        .with_columns(
            clock=pl.col("host").replace_strict(_own_clocks(case), return_dtype=pl.UInt16),
            doubt=pl.col("host").replace_strict(_spreads(case), return_dtype=pl.Int64),
        )
        .filter(pl.len().over(meeting) > 1)
    )
    start = pl.col("start_ps")
    several = pl.col("host").n_unique().over(meeting) > 1
    return (
        met.with_columns(
            late_ps=start - start.quantile(0.5, "lower").over(meeting).cast(pl.Int64),
            ahead=start - start.bottom_k(pl.len() - 1).max().over(meeting),
            doubt=pl.when(several).then(pl.col("doubt").max().over(meeting)).otherwise(0),
        )
        .with_columns(
            late_ps=pl.when(pl.col("late_ps").abs() > pl.col("doubt")).then("late_ps").otherwise(0),
            last=(pl.col("ahead") > pl.col("doubt")),
        )
        .with_columns(caused_ps=pl.when("last").then("ahead").otherwise(0))
        .select("device", "host", "collective", "step", "turn", "late_ps", "last", "caused_ps")
    )


def _host(case: Case) -> pl.Expr:
    of = {index: device.host for index, device in enumerate(case.timeline.devices)}
    return pl.col("device").replace_strict(of, return_dtype=pl.UInt16)


def _own_clocks(case: Case) -> dict[int, int]:
    """Hosts that were not aligned with the first keep a clock of their own."""
    hosts = case.timeline.hosts
    return {i: i if host.clock_offset_ps is None else 0 for i, host in enumerate(hosts)}


def _spreads(case: Case) -> dict[int, int]:
    return {i: host.clock_spread_ps or 0 for i, host in enumerate(case.timeline.hosts)}


def _slower(case: Case) -> pl.DataFrame:
    windows = case.selection.windows.group_by("device").agg(pl.len().alias("windows"))
    compute = (
        case.attributed.filter(pl.col("state") == Lane.COMPUTE)
        .group_by("device")
        .agg(pl.col("ps").sum())
        .join(windows, on="device")
        .select("device", ms=pl.col("ps") / pl.col("windows") / PS_PER_MS)
    )
    return compute.select("device", slower_compute_ms=pl.col("ms") - pl.col("ms").median())
