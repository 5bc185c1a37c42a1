"""Stalls: how long devices wait for other TPU slices, and why.

A transfer lasts from its send to the end of its recv-done. According to the runtime, that is

    fetch     the host takes the data from the device (DeviceToHost)
    late      the peer's message left only then: it sent later than this slice
    network   the message was under way (`network_transport_latency_us`, or `duration_us`)
    deliver   from its arrival to the end of recv-done: HostToDevice, waiting for the device

and the device had `slack` of other work before it had to wait. The wait of each execution is
attributed to the peer as far as it was late, then to the host as far as it registered or copied
buffers in that time (STEP202, STEP203), to the network as far as it took longer than necessary
(`calls`), and the rest to the schedule, which leaves too little work between send and recv-done.
Without runtime records, only bytes and slack are known: the time the network needs for all devices
of a host at once is attributed to the schedule, and the cause of the rest is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import polars as pl

from counterpoint.diagnose.exposure.causes import BETWEEN_SLICES, shares_of
from counterpoint.diagnose.network.calls import BASE_MS, RemoteCalls, remote_calls
from counterpoint.diagnose.network.host_work import host_busy, spent_within
from counterpoint.diagnose.selection import PS_PER_MS, device_slices
from counterpoint.diagnose.step import device_breakdowns
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.host_transfers import host_transfers
from counterpoint.timeline.model import Action

_KEYS: Final = ("device", "run", "program", "name", "turn")
_MEDIANS: Final = ("late_ms", "network_ms")
_SHARES: Final = ("by_peer", "by_host", "by_network")


class StallCause(StrEnum):
    """The cause of a wait."""

    PEER = "other slices send late"
    NETWORK = "the network is slow"
    HOST = "hosts register or copy buffers first"
    SCHEDULE = "too little work between send and recv-done"
    UNKNOWN = "late senders or a slow network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One transfer; medians of one execution in milliseconds, `waits_ms` per median step."""

    row: dict[str, Any]  # of data.cached(collective_profile), with its share
    waits_ms: float
    slack_ms: float | None
    lasts_ms: float
    needed_ms: float | None  # time the network needs for it; null: bytes are not known
    late_ms: float | None
    network_ms: float | None
    by_cause: dict[StallCause, float]  # per median step; they add up to `waits_ms`

    @property
    def cause(self) -> StallCause:
        """The cause with the largest part."""
        return max(self.by_cause, key=lambda cause: self.by_cause[cause])


def stalls(data: StepData) -> tuple[Stall, ...]:
    """Return transfers between slices that devices wait for, most expensive first."""
    rows = data.cached(shares_of).of(BETWEEN_SLICES)
    if not rows:
        return ()
    calls = remote_calls(data.timeline, data.context.target)
    by_transfer = _recorded_transfers(data, calls)
    return tuple(
        _stall(data, row, by_transfer.get((row["program"], row["op"])), calls) for row in rows
    )


def _stall(
    data: StepData, row: dict[str, Any], recorded: dict[str, Any] | None, calls: RemoteCalls
) -> Stall:
    count = row["count"] or 1.0
    wire = (row["bytes"] or 0) * (_factor(data, row) or 0.0)
    needed = BASE_MS + wire * _devices_of_a_host(data) / calls.rate * 1e3 if wire else None
    if recorded is not None:
        parts = _recorded_parts(row["own_ms"], recorded)
    else:
        parts = _estimated_parts(row["own_ms"], row["slack_ms"], needed, count)
    return Stall(
        row=row,
        waits_ms=row["own_ms"],
        slack_ms=row["slack_ms"],
        lasts_ms=row["median_ms"],
        needed_ms=needed,
        late_ms=recorded["late_ms"] if recorded else None,
        network_ms=recorded["network_ms"] if recorded else None,
        by_cause=parts,
    )


def _recorded_parts(waits: float, recorded: dict[str, Any]) -> dict[StallCause, float]:
    by_peer, by_host, by_network = (waits * recorded[share] for share in _SHARES)
    return {
        StallCause.SCHEDULE: max(0.0, waits - by_peer - by_network - by_host),
        StallCause.PEER: by_peer,
        StallCause.NETWORK: by_network,
        StallCause.HOST: by_host,
    }


def _estimated_parts(
    waits: float, slack: float | None, needed: float | None, count: float
) -> dict[StallCause, float]:
    if needed is None or slack is None:
        return {StallCause.UNKNOWN: waits}
    scheduled = min(waits, max(0.0, needed - slack) * count)
    return {StallCause.SCHEDULE: scheduled, StallCause.UNKNOWN: waits - scheduled}


def _factor(data: StepData, row: dict[str, Any]) -> float | None:
    ops = data.timeline.ops.filter(
        (pl.col("pair") == row["op"]) & pl.col("program").eq_missing(pl.lit(row["program"]))
    )
    factors = ops["bus_factor"].drop_nulls()
    return float(factors[0]) if len(factors) else None


def _devices_of_a_host(data: StepData) -> int:
    hosts = [device.host for device in data.timeline.devices]
    return max((hosts.count(host) for host in set(hosts)), default=1)


def _recorded_transfers(
    data: StepData, calls: RemoteCalls
) -> dict[tuple[int, str], dict[str, Any]]:
    """Return, per transfer, medians of runtime records and shares of the wait by cause."""
    executions = _executions(data)
    if not len(executions) or not len(calls.rows):
        return {}
    waits, rest = pl.col("wait_ms"), pl.col("wait_ms")
    measured = _with_host_work(data, _with_arrivals(data, executions, calls))
    for share, ms in zip(_SHARES, ("late_ms", "host_ms", "slow_ms"), strict=True):
        measured = measured.with_columns(pl.min_horizontal(rest, ms).alias(share))
        rest = rest - pl.col(share)
    medians = (
        measured.group_by("program", "name")
        .agg(pl.col(*_MEDIANS).median(), *(pl.col(share).sum() / waits.sum() for share in _SHARES))
        .filter(pl.col("by_peer").is_not_nan())
    )
    return {(row["program"], row["name"]): row for row in medians.iter_rows(named=True)}


def _with_arrivals(data: StepData, executions: pl.DataFrame, calls: RemoteCalls) -> pl.DataFrame:
    """Join executions with the last message received for each; others are dropped."""
    arrivals = (
        calls.rows.filter(pl.col("device").is_not_null())
        .rename({"name": "rendezvous", "start_ps": "sent_ps", "end_ps": "came_ps"})
        .select("device", "rendezvous", "sent_ps", "came_ps", "latency_ms", "excess_ms")
        .sort("came_ps")
    )
    after = pl.col("sent_ps") - pl.col("send_ps") - pl.col("fetch_ps").fill_null(0)
    return (
        executions.sort("done_ps")
        .join_asof(
            arrivals,
            left_on="done_ps",
            right_on="came_ps",
            by=["device", "rendezvous"],
            strategy="backward",
            check_sortedness=False,
        )
        .filter(pl.col("came_ps") >= pl.col("send_ps"))
        .join(_fetches(data), on="rendezvous", how="left")
        .with_columns(
            late_ms=(after / PS_PER_MS).clip(0), network_ms="latency_ms", slow_ms="excess_ms"
        )
    )


def _with_host_work(data: StepData, executions: pl.DataFrame) -> pl.DataFrame:
    """Add `host_ms`, the time of host work between send and recv-done."""
    host_of = [device.host for device in data.timeline.devices]
    own = np.array(host_of, np.int64)[executions["device"].to_numpy()]
    busy = host_busy(data.timeline)
    spent = spent_within(busy, own, executions["send_ps"], executions["done_ps"])
    return executions.with_columns(host_ms=pl.Series(spent) / PS_PER_MS)


def _executions(data: StepData) -> pl.DataFrame:
    """Return one row per execution: when it was sent, and when its recv-done ended."""
    parts = host_transfers(data.timeline).drop_nulls("rendezvous")
    end = pl.col("start_ps") + pl.col("dur_ps")
    return (
        data.spans.filter(pl.col("step").is_not_null())
        .join(parts, left_on="op", right_on="row")
        .sort("start_ps")
        .with_columns(turn=pl.int_range(pl.len()).over("device", "run", "op"))
        .group_by(*_KEYS)
        .agg(
            pl.col("rendezvous").first(),
            send_ps=pl.col("start_ps").filter(pl.col("role") == "send").min(),
            done_ps=end.filter(pl.col("role") == "recv-done").max(),
            wait_ms=pl.col("dur_ps").sum() / PS_PER_MS,
        )
        .drop_nulls(["send_ps", "done_ps"])
    )


def _fetches(data: StepData) -> pl.DataFrame:
    """Return the median time the host takes to fetch what is sent."""
    rows = data.timeline.transfers.filter(pl.col("action") == Action.DEVICE_TO_HOST)
    return rows.group_by(rendezvous="name").agg(fetch_ps=pl.col("dur_ps").median())


_OF_STEP: Final = 0.01
"""A difference below this share of the step is noise."""


@dataclass(frozen=True, slots=True)
class SlowerHost:
    """Milliseconds of a median step, means over devices; `others_ms` is the other hosts' median."""

    host: int
    compute_ms: float
    others_ms: float

    @property
    def longer_ms(self) -> float:
        """Excess over the other hosts."""
        return self.compute_ms - self.others_ms


def slower_host(data: StepData) -> SlowerHost | None:
    """Return the host that computes longest; None if there is only one, or all compute alike.

    A profile does not number slices; each host belongs to one of them. The compute time of a device
    in a step can be compared between hosts whatever their clocks show.
    """
    by_host: dict[int, list[float]] = {}
    for device, parts in device_breakdowns(data.selection, data.attributed).items():
        by_host.setdefault(data.timeline.devices[device].host, []).append(parts.compute_ms)
    means = {host: float(np.mean(values)) for host, values in by_host.items()}
    if len(means) < 2:
        return None
    worst = max(means, key=lambda host: means[host])
    others = float(np.median([ms for host, ms in means.items() if host != worst]))
    slowest = SlowerHost(worst, means[worst], others)
    return slowest if slowest.longer_ms > _OF_STEP * data.step_ms else None


def longest_wait_ms(data: StepData, *, idle: bool) -> float:
    """Return the wait in transfers between slices of the device that waits longest, per step.

    With `idle`, its idle time counts too: a device that waits for a late slice may do so there. A
    step can't gain more: the longest-waiting device has nothing else to wait for.
    """
    ops = host_transfers(data.timeline)["row"].to_list()
    inside = data.spans.filter(pl.col("op").is_in(ops) & pl.col("step").is_not_null())
    waited = dict(inside.group_by("device").agg(pl.col("dur_ps").sum()).iter_rows())
    whole = data.selection.scale * data.selection.occurrences
    slices = device_slices(data.selection.windows)
    return max(
        (
            # An asynchronous window is no wait: exposed time bounds it.
            min(
                waited.get(device, 0) * whole / (slices[device].stop - slices[device].start),
                parts.collective_exposed_ms,
            )
            + (parts.idle_ms if idle else 0.0)
            for device, parts in device_breakdowns(data.selection, data.attributed).items()
        ),
        default=0.0,
    )
