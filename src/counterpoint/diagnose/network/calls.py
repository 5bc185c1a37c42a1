"""Remote calls: how long messages between slices take, compared with what they should take.

    expected = 1 ms + carried / rate
    carried  = bytes received by the same host meanwhile, its own included: each call's bytes are
               spread evenly over its duration
    rate     = of the host's network: the Target's, else 12.5 GB/s

So a call that shares a busy network is not slow: bandwidth is a separate matter (STEP106). 12.5
GB/s is xprof's value for a host (dcn_analysis.h, kMaxHostDcnBw); 1 ms is generous to TCP and gRPC
within a data center, where a round trip takes some tenths. Both are rules of thumb.

The transport time recorded by the runtime begins before a host has registered or copied its
buffers. So the time the receiving host spent on that during the call is subtracted first.

A call is slow if the rest exceeds three times the expected time; or, if most calls are faster than
expected, if it takes three times as long for its load as the median call and deviates by more than
six median deviations. If most calls are slow, the network always is (sustained), else occasionally
(sporadic).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.diagnose.network.host_work import host_busy, spent_within, with_steps
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.timeline.model import Action

if TYPE_CHECKING:
    from counterpoint.hardware.target import Target
    from counterpoint.timeline.model import Timeline

BASE_MS: Final = 1.0
RATE: Final = 12.5e9  # bytes per second of one host
TIMES: Final = 3.0
_DEVIATIONS: Final = 6 * 1.4826  # median absolute deviations, scaled to standard deviations
_TAIL: Final = 0.95
_LISTED: Final = 4

CALLS: Final = {
    "row": pl.UInt32,  # of Timeline.transfers
    "host": pl.UInt16,
    "device": pl.UInt16,
    "peer": pl.String,
    "name": pl.String,
    "step": pl.Int32,  # null: outside of steps
    "steady": pl.Boolean,
    "start_ps": pl.Int64,  # when it was sent
    "end_ps": pl.Int64,
    "bytes": pl.Int64,
    "latency_ms": pl.Float64,
    "host_ms": pl.Float64,  # the part in which the host registered or copied buffers
    "expected_ms": pl.Float64,
    "excess_ms": pl.Float64,  # over the expected time; 0 unless it is slow
    "slow": pl.Boolean,
}

Longs = NDArray[np.int64]


class LatencyPattern(StrEnum):
    """The times at which calls are slow."""

    NORMAL = "normal"
    SPORADIC = "sporadic"
    SUSTAINED = "sustained"


@dataclass(frozen=True, slots=True, eq=False)
class RemoteCalls:
    """All remote calls of a profile; `rate` is in bytes per second of one host."""

    rows: pl.DataFrame  # CALLS
    rate: float
    rate_source: str
    hosts: tuple[str, ...]  # names, by the numbers in `rows`

    @property
    def pattern(self) -> LatencyPattern:
        """The pattern of all calls together."""
        return _pattern(self.rows["slow"])

    @property
    def links(self) -> pl.DataFrame:
        """One row per host and peer: medians, p95 and maximum of latency, host work, slow share."""
        grouped = self.rows.group_by("host", "peer", maintain_order=True).agg(*_statistics())
        return grouped.with_columns(
            pattern=pl.when(pl.col("slow_share") > 0.5)
            .then(pl.lit(LatencyPattern.SUSTAINED.value))
            .when(pl.col("slow_share") > 0)
            .then(pl.lit(LatencyPattern.SPORADIC.value))
            .otherwise(pl.lit(LatencyPattern.NORMAL.value))
        ).sort("median_ms", descending=True)

    @property
    def by_step(self) -> pl.DataFrame:
        """Latency over time: one row per step, with the same columns as `links`."""
        inside = self.rows.filter(pl.col("step").is_not_null())
        return inside.group_by("step").agg(*_statistics()).sort("step")


def _statistics() -> tuple[pl.Expr, ...]:
    latency = pl.col("latency_ms")
    return (
        pl.len().alias("calls"),
        latency.median().alias("median_ms"),
        latency.quantile(_TAIL, "linear").alias("p95_ms"),
        latency.max().alias("max_ms"),
        pl.col("host_ms").median(),
        pl.col("slow").mean().alias("slow_share"),
    )


def _pattern(slow: pl.Series) -> LatencyPattern:
    if not slow.any():
        return LatencyPattern.NORMAL
    return LatencyPattern.SUSTAINED if 2 * slow.sum() > len(slow) else LatencyPattern.SPORADIC


def remote_calls(timeline: Timeline, target: Target | None = None) -> RemoteCalls:
    """Return the messages recorded by the runtime, except those without a transport time."""
    rate, source = RATE, "rule of thumb: 100 Gb/s per host"
    if target is not None:
        rate = target.links.nic_bytes_per_s * target.links.nics_per_host
        source = f"target: {target.links.network_source}"
    names = tuple(host.name for host in timeline.hosts)
    known = timeline.transfers.with_row_index("row").filter(
        (pl.col("action") == Action.RECEIVE) & (pl.col("latency_ps") > 0)
    )
    if not len(known):
        return RemoteCalls(pl.DataFrame(schema=CALLS), rate, source, names)
    end = pl.col("start_ps") + pl.col("dur_ps")
    rows = with_steps(
        timeline, known.with_columns(end_ps=end, start_ps=end - pl.col("latency_ps"))
    ).sort("host", "start_ps")
    carried = np.concatenate(
        [_carried(part) for _, part in rows.group_by("host", maintain_order=True)]
    )
    hosts = rows["host"].to_numpy().astype(np.int64)
    spent = spent_within(host_busy(timeline), hosts, rows["start_ps"], rows["end_ps"])
    rows = rows.with_columns(
        latency_ms=pl.col("latency_ps") / PS_PER_MS,
        host_ms=pl.Series(spent) / PS_PER_MS,
        expected_ms=BASE_MS + pl.Series(carried) / rate * 1e3,
    )
    return RemoteCalls(_judged(rows).select(*CALLS).cast({**CALLS}), rate, source, names)


def silent_hosts(timeline: Timeline, calls: RemoteCalls) -> tuple[str, ...]:
    """Return hosts without recorded messages if others have some."""
    recording = set(calls.rows["host"].to_list())
    hosts = sorted({device.host for device in timeline.devices}) if recording else []
    return tuple(timeline.hosts[host].name for host in hosts if host not in recording)


def listed(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _judged(rows: pl.DataFrame) -> pl.DataFrame:
    transport = pl.col("latency_ms") - pl.col("host_ms")
    ratio = transport / pl.col("expected_ms")
    middle = ratio.median()
    deviation = (ratio - middle).abs().median()
    unusual = (ratio > TIMES * middle) & (ratio > middle + _DEVIATIONS * deviation)
    slow = (ratio > TIMES) | unusual
    usual = pl.col("expected_ms") * pl.min_horizontal(middle, pl.lit(1.0))
    excess = pl.when(slow).then(transport - usual).otherwise(0.0)
    return rows.with_columns(slow=slow, excess_ms=excess)


def _carried(calls: pl.DataFrame) -> NDArray[np.float64]:
    """Return the bytes that one host received during each call."""
    start, end = calls["start_ps"].to_numpy(), calls["end_ps"].to_numpy()
    rate = calls["bytes"].fill_null(0).to_numpy() / (end - start)
    times = np.concatenate([start, end])
    order = np.argsort(times, kind="stable")
    slope = np.cumsum(np.concatenate([rate, -rate])[order])
    times = times[order]
    received = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(times))])
    return np.interp(end, times, received) - np.interp(start, times, received)
