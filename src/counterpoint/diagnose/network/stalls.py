"""Stalls: how long devices wait for what comes from other TPU slices, and for whom.

A transfer lasts from its send to the end of its recv-done. As far as the runtime tells, that is

    fetch     the host takes the data from the device (DeviceToHost)
    late      the peer's message left only then: it sent later than we did
    network   the message was under way (`network_transport_latency_us`, or `duration_us`)
    deliver   from its arrival to the end of recv-done: HostToDevice, waiting for the device

and the device had `slack` of other work before it came to wait. What each execution waited is laid
to the peer as far as it was late, then to the host as far as it registered or copied buffers in
that time (STEP202, STEP203), to the network as far as that took longer beside than it need
(`calls`), and the rest to the schedule, which leaves too little work between send and recv-done.
Where the runtime tells nothing, only bytes and slack do: what the network needs for all devices of
a host at once is the schedule's, and what is beyond nobody can tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import polars as pl

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.exposure.causes import BETWEEN_SLICES, shares_of
from counterpoint.diagnose.network.calls import BASE_MS, Calls, remote_calls
from counterpoint.diagnose.network.host_work import host_busy, spent_within
from counterpoint.diagnose.selection import PS_PER_MS, device_slices
from counterpoint.diagnose.step import device_breakdowns
from counterpoint.timeline import Action
from counterpoint.timeline.ops import host_transfers

_KEYS: Final = ("device", "run", "program", "name", "turn")
_TOLD: Final = ("late_ms", "network_ms")
_SHARES: Final = ("by_peer", "by_host", "by_network")


class Cause(StrEnum):
    """What a wait is laid to."""

    PEER = "the other slices send late"
    NETWORK = "the network is slow"
    HOST = "hosts register or copy buffers first"
    SCHEDULE = "too little runs between send and recv-done"
    UNTOLD = "late senders or a slow network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One transfer; milliseconds of one execution by the median, `waits_ms` of a median step."""

    row: dict[str, Any]  # of case.ask(collective_profile), with its share
    waits_ms: float
    slack_ms: float | None
    lasts_ms: float
    needed_ms: float | None  # by what the network needs for it; null: bytes are not known
    late_ms: float | None
    network_ms: float | None
    by_cause: dict[Cause, float]  # of a median step; they add up to `waits_ms`

    @property
    def cause(self) -> Cause:
        """The one with the largest part."""
        return max(self.by_cause, key=lambda cause: self.by_cause[cause])


def stalls(case: Case) -> tuple[Stall, ...]:
    """Transfers between slices for which devices wait, the dearest first."""
    rows = case.ask(shares_of).of(BETWEEN_SLICES)
    if not rows:
        return ()
    calls = remote_calls(case.timeline, case.context.target)
    told = _told(case, calls)
    return tuple(_stall(case, row, told.get((row["program"], row["op"])), calls) for row in rows)


def _stall(case: Case, row: dict[str, Any], told: dict[str, Any] | None, calls: Calls) -> Stall:
    count = row["count"] or 1.0
    wire = (row["bytes"] or 0) * (_factor(case, row) or 0.0)
    needed = BASE_MS + wire * _devices_of_a_host(case) / calls.rate * 1e3 if wire else None
    if told is not None:
        parts = _told_parts(row["own_ms"], told)
    else:
        parts = _untold_parts(row["own_ms"], row["slack_ms"], needed, count)
    return Stall(
        row=row,
        waits_ms=row["own_ms"],
        slack_ms=row["slack_ms"],
        lasts_ms=row["median_ms"],
        needed_ms=needed,
        late_ms=told["late_ms"] if told else None,
        network_ms=told["network_ms"] if told else None,
        by_cause=parts,
    )


def _told_parts(waits: float, told: dict[str, Any]) -> dict[Cause, float]:
    by_peer, by_host, by_network = (waits * told[share] for share in _SHARES)
    return {
        Cause.SCHEDULE: max(0.0, waits - by_peer - by_network - by_host),
        Cause.PEER: by_peer,
        Cause.NETWORK: by_network,
        Cause.HOST: by_host,
    }


def _untold_parts(
    waits: float, slack: float | None, needed: float | None, count: float
) -> dict[Cause, float]:
    if needed is None or slack is None:
        return {Cause.UNTOLD: waits}
    scheduled = min(waits, max(0.0, needed - slack) * count)
    return {Cause.SCHEDULE: scheduled, Cause.UNTOLD: waits - scheduled}


def _factor(case: Case, row: dict[str, Any]) -> float | None:
    ops = case.timeline.ops.filter(
        (pl.col("pair") == row["op"]) & pl.col("program").eq_missing(pl.lit(row["program"]))
    )
    factors = ops["bus_factor"].drop_nulls()
    return float(factors[0]) if len(factors) else None


def _devices_of_a_host(case: Case) -> int:
    hosts = [device.host for device in case.timeline.devices]
    return max((hosts.count(host) for host in set(hosts)), default=1)


def _told(case: Case, calls: Calls) -> dict[tuple[int, str], dict[str, Any]]:
    """Per transfer: medians of what the runtime tells, and shares of the waiting by its cause."""
    executions = _executions(case)
    if not len(executions) or not len(calls.rows):
        return {}
    waits, rest = pl.col("wait_ms"), pl.col("wait_ms")
    told = _with_host_work(case, _with_arrivals(case, executions, calls))
    for share, ms in zip(_SHARES, ("late_ms", "host_ms", "slow_ms"), strict=True):
        told = told.with_columns(pl.min_horizontal(rest, ms).alias(share))
        rest = rest - pl.col(share)
    found = (
        told.group_by("program", "name")
        .agg(pl.col(*_TOLD).median(), *(pl.col(share).sum() / waits.sum() for share in _SHARES))
        .filter(pl.col("by_peer").is_not_nan())
    )
    return {(row["program"], row["name"]): row for row in found.iter_rows(named=True)}


def _with_arrivals(case: Case, executions: pl.DataFrame, calls: Calls) -> pl.DataFrame:
    """Executions with the last message that came for each: those of which it is known."""
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
        .join(_fetches(case), on="rendezvous", how="left")
        .with_columns(
            late_ms=(after / PS_PER_MS).clip(0), network_ms="latency_ms", slow_ms="excess_ms"
        )
    )


def _with_host_work(case: Case, executions: pl.DataFrame) -> pl.DataFrame:
    """With `host_ms`, in which the device's host did such work between send and recv-done."""
    host_of = [device.host for device in case.timeline.devices]
    own = np.array(host_of, np.int64)[executions["device"].to_numpy()]
    busy = host_busy(case.timeline)
    spent = spent_within(busy, own, executions["send_ps"], executions["done_ps"])
    return executions.with_columns(host_ms=pl.Series(spent) / PS_PER_MS)


def _executions(case: Case) -> pl.DataFrame:
    """One row per execution: when it was sent, and when its recv-done ended."""
    parts = host_transfers(case.timeline).drop_nulls("rendezvous")
    end = pl.col("start_ps") + pl.col("dur_ps")
    return (
        case.spans.filter(pl.col("step").is_not_null())
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


def _fetches(case: Case) -> pl.DataFrame:
    """How long the host takes to fetch what is sent, by the median."""
    rows = case.timeline.transfers.filter(pl.col("action") == Action.DEVICE_TO_HOST)
    return rows.group_by(rendezvous="name").agg(fetch_ps=pl.col("dur_ps").median())


_OF_STEP: Final = 0.01
"""A difference below this share of the step is scatter."""


@dataclass(frozen=True, slots=True)
class SlowerHost:
    """Milliseconds of a median step, means over devices; `others_ms` the median of other hosts."""

    host: int
    compute_ms: float
    others_ms: float

    @property
    def longer_ms(self) -> float:
        """By how much."""
        return self.compute_ms - self.others_ms


def slower_host(case: Case) -> SlowerHost | None:
    """The host that computes longest; None where there is one, or all compute alike."""
    by_host: dict[int, list[float]] = {}
    for device, parts in device_breakdowns(case.selection, case.attributed).items():
        by_host.setdefault(case.timeline.devices[device].host, []).append(parts.compute_ms)
    means = {host: float(np.mean(values)) for host, values in by_host.items()}
    if len(means) < 2:
        return None
    worst = max(means, key=lambda host: means[host])
    others = float(np.median([ms for host, ms in means.items() if host != worst]))
    found = SlowerHost(worst, means[worst], others)
    return found if found.longer_ms > _OF_STEP * case.step_ms else None


def longest_wait_ms(case: Case, *, idle: bool) -> float:
    """Per median step, of the device that stands longest in transfers between slices.

    With `idle`, what it stands idle counts too: who waits for a late slice waits there as well.
    A step can't gain more: the longest-waiting device has nothing else to wait for.
    """
    ops = host_transfers(case.timeline)["row"].to_list()
    inside = case.spans.filter(pl.col("op").is_in(ops) & pl.col("step").is_not_null())
    waited = dict(inside.group_by("device").agg(pl.col("dur_ps").sum()).iter_rows())
    whole = case.selection.scale * case.selection.occurrences
    slices = device_slices(case.selection.windows)
    return max(
        (
            # A window of something asynchronous is no wait: what is exposed bounds it.
            min(
                waited.get(device, 0) * whole / (slices[device].stop - slices[device].start),
                parts.collective_exposed_ms,
            )
            + (parts.idle_ms if idle else 0.0)
            for device, parts in device_breakdowns(case.selection, case.attributed).items()
        ),
        default=0.0,
    )
