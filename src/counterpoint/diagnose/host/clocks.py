"""Clocks of several hosts: how far they were apart, how sure that is, and whether they drift.

`timeline.align` took one offset per host off its times. What then remains between the ends of
shared collectives tells how finely times of two hosts can be compared, and its course over the
profile whether a clock runs faster than the first host's.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.timeline.align import shared_ends
from counterpoint.timeline.model import Timeline

SCHEMA: Final = {
    "host": pl.UInt16,
    "aligned": pl.Boolean,
    "offset_ms": pl.Float64,  # what was subtracted; null: not known
    "spread_ms": pl.Float64,  # median straying of single collectives
    "collectives": pl.UInt32,  # that it shares with the first host
    "drift_ppm": pl.Float64,  # against the first host's clock; null: too few to tell
    "drift_ms": pl.Float64,  # from the first shared collective to the last
    "apart_ms": pl.Float64,  # of a host not aligned: from its time on devices to the first host's
}

_ENOUGH: Final = 16
"""Collectives for a slope: fewer lie on any line."""


def clocks(timeline: Timeline) -> pl.DataFrame:
    """One row per host."""
    if not timeline.hosts or not timeline.devices:
        return pl.DataFrame(schema=SCHEMA)
    given = pl.DataFrame(
        [
            (i, one.clock_offset_ps is not None, one.clock_offset_ps, one.clock_spread_ps)
            for i, one in enumerate(timeline.hosts)
        ],
        schema={"host": pl.UInt16, "aligned": pl.Boolean, "offset": pl.Int64, "spread": pl.Int64},
        orient="row",
    )
    return (
        given.join(_drift(timeline), on="host", how="left")
        .join(_apart(timeline), on="host", how="left")
        .with_columns(
            offset_ms=pl.col("offset") / PS_PER_MS,
            spread_ms=pl.col("spread") / PS_PER_MS,
            apart_ms=pl.when(~pl.col("aligned")).then("apart_ms"),
        )
        .select(*SCHEMA)
        .cast({**SCHEMA})
        .sort("host")
    )


def _drift(timeline: Timeline) -> pl.DataFrame:
    """Slope of the differences that are left, by least squares on those near their median."""
    hosts = [device.host for device in timeline.devices]
    left = shared_ends(timeline.spans, timeline.ops, timeline.runs, hosts)
    rest = pl.col("difference") - pl.col("difference").median().over("host")
    near = rest.abs() <= 5 * rest.abs().median().over("host")
    x, y = pl.col("end_ps_first").cast(pl.Float64), pl.col("difference").cast(pl.Float64)
    slope = pl.cov(x, y) / x.var()
    enough = (pl.len() >= _ENOUGH) & (pl.col("host").first() != hosts[0])
    return (
        left.filter(near)
        .group_by("host")
        .agg(
            pl.len().alias("collectives"),
            pl.when(enough).then(slope * 1e6).alias("drift_ppm"),
            pl.when(enough).then(slope * (x.max() - x.min()) / PS_PER_MS).alias("drift_ms"),
        )
        .with_columns(pl.col("host").cast(pl.UInt16))
    )


def _apart(timeline: Timeline) -> pl.DataFrame:
    """The time between a host's work on devices and the first host's; 0 where they overlap."""
    of = {index: device.host for index, device in enumerate(timeline.devices)}
    end = (pl.col("start_ps") + pl.col("dur_ps")).max()
    extent = timeline.spans.group_by("device").agg(pl.col("start_ps").min(), end.alias("end_ps"))
    by_host = (
        extent.with_columns(
            host=pl.col("device").replace_strict(of, return_dtype=pl.UInt16),
        )
        .group_by("host")
        .agg(pl.col("start_ps").min(), pl.col("end_ps").max())
        .sort("host")
    )
    if not len(by_host):
        return pl.DataFrame(schema={"host": pl.UInt16, "apart_ms": pl.Float64})
    _, start, last = by_host.row(0)
    gap = pl.max_horizontal(pl.col("start_ps") - last, start - pl.col("end_ps"), 0)
    return by_host.select("host", apart_ms=gap / PS_PER_MS)
