"""Clocks of hosts could not be aligned, or drift apart.

## What it does

Reports how precisely times of different hosts can be compared: hosts whose clocks have nothing in
common with the first one's, uncertain clocks, and clocks that run faster than others.

## Why it costs time

It costs no time. But late ranks, waits and transfer times between hosts can't be determined from
times on different clocks.

## How it is detected

Collectives of all devices end at nearly the same moment everywhere. The median difference of their
ends is subtracted from a host's times; the deviation of single ends is the uncertainty, and its
trend over the profile is the drift. Hosts without shared collectives keep their own clocks.

## Example

```text
host3    its work lies 4.2 s after that of host0, and they share no collective
```

## Fix

Record all hosts in the same steps of the same run. Synchronize the hosts' clocks to one source
(chrony or PTP); `counterpoint doctor --compare` shows before a run which hosts' clocks are not
synchronized.

## Fix safety

The program does not change.

## False alarms

Programs that share no collective of all devices (inference replicas) can't be aligned, and need not
be. Slices of TPUs, which share none either, are only named if they worked at other times: a note
says that each has its own clock.

## References

- docs/concepts/timeline.md
- https://chrony-project.org/documentation.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from counterpoint.core import Basis, Unknown
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.network.premap import spans_slices
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.hosts import shared_ends
from counterpoint.timeline.model import Timeline

CODE: Final = "STEP608"
NAME: Final = "clocks-apart"
SINCE: Final = "0.1"

_LISTED: Final = 4
_OF_STEP: Final = 0.01
"""Share of the step above which an uncertainty or a drift hides possible losses."""

_UNKNOWN: Final = Unknown("it shows which times are comparable, not a possible gain")


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding on unrelated clocks, and one on uncertain or drifting clocks."""
    if len(data.timeline.hosts) < 2 or data.basis is Basis.PREDICTED:
        return
    rows = clocks(data.timeline).to_dicts()[1:]
    # Slices meet on the network only: without a common collective nothing is wrong with them.
    slices = spans_slices(data)
    apart = [row for row in rows if not row["aligned"] and not (slices and row["apart_ms"] == 0)]
    if apart:
        yield _apart(data, apart)
    limit = _OF_STEP * data.step_ms
    strays = [row for row in rows if row["aligned"] and _most(row) > limit > 0]
    if strays:
        yield _strays(data, strays)


def _most(row: dict[str, Any]) -> float:
    return max(row["spread_ms"] or 0.0, abs(row["drift_ms"] or 0.0))


def _apart(data: StepData, rows: list[dict[str, Any]]) -> Finding:
    distant = [row for row in rows if row["apart_ms"]]
    seconds = max((row["apart_ms"] for row in distant), default=0.0) / 1e3
    return Finding(
        code=CODE,
        title=(
            f"the clocks of {len(rows)} of {len(data.timeline.hosts)} hosts can't be compared with"
            f" the first host's ({data.timeline.hosts[0].name})"
        ),
        detail=(
            "they share no collective of all devices in the same run of a program"
            + (
                f"; the work of {len(distant)} is up to {seconds:,.1f} s away from the first"
                " host's: profiles of other steps, or wrong clocks"
                if distant
                else ""
            )
        ),
        saves_ms=_UNKNOWN,
        basis=data.basis,
        evidence=tuple(
            Evidence(what=data.timeline.hosts[int(row["host"])].name, ms=row["apart_ms"])
            for row in rows[:_LISTED]
        ),
        remedy=Remedy(
            "record all hosts in the same steps, and synchronize their clocks to one source"
        ),
    )


def _strays(data: StepData, rows: list[dict[str, Any]]) -> Finding:
    worst = max(rows, key=_most)
    name = data.timeline.hosts[int(worst["host"])].name
    drift, whose = worst["drift_ppm"], counted_noun(len(rows), "host")
    return Finding(
        code=CODE,
        title=f"clocks of {whose} are accurate only to {ms_text(_most(worst))}",
        detail=(
            f"ends of shared collectives on {name} deviate by {worst['spread_ms'] or 0.0:,.3f} ms"
            + (f", and its clock drifts by {drift:+,.1f} ppm" if drift is not None else "")
        ),
        saves_ms=_UNKNOWN,
        basis=data.basis,
        evidence=tuple(
            Evidence(what=data.timeline.hosts[int(row["host"])].name, ms=_most(row))
            for row in rows[:_LISTED]
        ),
        remedy=Remedy("ignore lateness below that; synchronize the clocks to one source (PTP)"),
    )


SCHEMA: Final = {
    "host": pl.UInt16,
    "aligned": pl.Boolean,
    "offset_ms": pl.Float64,  # the value subtracted; null: not known
    "spread_ms": pl.Float64,  # median deviation of single collectives
    "collectives": pl.UInt32,  # shared with the first host
    "drift_ppm": pl.Float64,  # against the first host's clock; null: too few to estimate
    "drift_ms": pl.Float64,  # from the first shared collective to the last
    "apart_ms": pl.Float64,  # of an unaligned host: from its time on devices to the first host's
}


_ENOUGH: Final = 16
"""Minimum number of collectives for a slope."""


def clocks(timeline: Timeline) -> pl.DataFrame:
    """Return the clock offset, spread and drift, one row per host.

    `timeline.hosts.alignment` subtracted one offset per host. The differences that remain between
    the ends of shared collectives show how finely times of two hosts can be compared; their slope
    over the profile shows whether a clock runs faster than the first host's.
    """
    if not timeline.hosts or not timeline.devices:
        return pl.DataFrame(schema=SCHEMA)
    given = pl.DataFrame(
        [
            (index, host.clock_offset_ps is not None, host.clock_offset_ps, host.clock_spread_ps)
            for index, host in enumerate(timeline.hosts)
        ],
        schema={"host": pl.UInt16, "aligned": pl.Boolean, "offset": pl.Int64, "spread": pl.Int64},
        orient="row",
    )
    return (
        given.join(_drift(timeline), on="host", how="left")
        .join(_distance(timeline), on="host", how="left")
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
    """Return the slope of the remaining differences, by least squares on those near the median."""
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


def _distance(timeline: Timeline) -> pl.DataFrame:
    """Return the time between a host's device work and the first host's; 0 if they overlap."""
    host_of = {index: device.host for index, device in enumerate(timeline.devices)}
    end = (pl.col("start_ps") + pl.col("dur_ps")).max()
    extent = timeline.spans.group_by("device").agg(pl.col("start_ps").min(), end.alias("end_ps"))
    by_host = (
        extent.with_columns(
            host=pl.col("device").replace_strict(host_of, return_dtype=pl.UInt16),
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
