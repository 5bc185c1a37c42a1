"""Collectives wait for devices that come late.

## What it does

Names the devices that begin their collectives after the others of their group, by how much, whether
always or now and then, and whether their own work takes longer or starts late.

## Why it costs time

No collective ends before its last participant has come. All others wait, whatever the network.

## How it is detected

Each execution of a collective on all devices of its group, on clocks that were brought together:
the stay of the last is the transfer, what the others stay longer is waiting. A device that comes
last in most meetings is persistent, one that does so now and then sporadic. What is saved lies
between the waiting that is surely exposed, a mean over devices, and the delay itself. Where its own
compute takes longer than that of the median device, it is slow (a lower clock, more work in its
shard); else it starts late (its host, its input).

## Example

```text
device 0   backward | all-reduce (waits ......... transfer)
device 5   backward ................| all-reduce (transfer)
```

## Fix

Slow device: compare its clocks, temperature and neighbours (`nvidia-smi -q -d CLOCK,PERFORMANCE`),
and what its shard holds more of (experts, sequence lengths, pipeline stages). Late start: look at
its host's threads in the gap: input, logging, checkpoints, garbage collection.

## Fix safety

Nothing to change in the program.

## False alarms

Between hosts, lateness below the uncertainty of their clocks is nothing. A device that comes last
by turns with the others costs time too, but has no fault of its own.

## References

- docs/concepts/metrics.md (waiting and transfer)
- https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from counterpoint.core.basis import Range
from counterpoint.diagnose.advise import advise
from counterpoint.diagnose.case import Case, place_of
from counterpoint.diagnose.exposure.shares import shares_of
from counterpoint.diagnose.exposure.told import evidence
from counterpoint.diagnose.finding import Finding, Remedy
from counterpoint.diagnose.host.stragglers import lateness, stragglers
from counterpoint.timeline.meetings import number_collectives
from counterpoint.timeline.model import Lane

CODE: Final = "STEP105"
NAME: Final = "late-rank"
SINCE: Final = "0.1"

_NAMED: Final = 3
_MOSTLY: Final = 0.5
_OWN_WORK: Final = 0.5
"""Share of its lateness that a device's longer compute must explain for it to be called slow."""


def check(case: Case) -> Iterator[Finding]:
    """At most one: the waiting of all collectives."""
    rows = sorted(
        (row for row in case.ask(shares_of).rows if row["late_ms"] > 0),
        key=lambda row: -row["late_ms"],
    )
    if not rows:
        return
    possible = sum(row["late_ms"] for row in rows)
    # What is exposed beyond the transfer can be nothing but waiting.
    certain = sum(max(0.0, row["exposed_ms"] - _transfer(row)) for row in rows)
    late = _late(case)
    yield Finding(
        code=CODE,
        title=f"devices wait {possible:,.2f} ms per step for the one that comes last",
        detail=(
            f"the transfers of these collectives take {sum(map(_transfer, rows)):,.2f} ms; the"
            f" longest wait is in {place_of(rows[0])}, {rows[0]['late_ms']:,.2f} ms."
            f" {_who(case, late)}"
        ),
        saves_ms=Range(min(certain, possible), sum(_delay(case, row) for row in rows)),
        basis=case.basis,
        evidence=evidence(case, rows, "late_ms"),
        remedy=_remedy(case, late),
        doubt=_doubt(case),
    )


def _transfer(row: dict[str, Any]) -> float:
    return float(row["total_ms"] - (row["wait_ms"] or 0.0))


def _delay(case: Case, row: dict[str, Any]) -> float:
    """How late the last comes, where the waiting is a mean over all: itself it waits for nobody."""
    devices = len(case.timeline.devices)
    met = max(2, min(row["group_size"] or devices, devices))
    return float(row["late_ms"]) * met / (met - 1)


def _late(case: Case) -> list[dict[str, Any]]:
    """Devices that cost the others time, the dearest first."""
    return stragglers(case).filter(pl.col("kind") != "none").head(_NAMED).to_dicts()


def _who(case: Case, late: list[dict[str, Any]]) -> str:
    if not late:
        return "No device comes last more often than the others do"
    return "; ".join(_one(case, row) for row in late)


def _one(case: Case, row: dict[str, Any]) -> str:
    device = case.timeline.devices[int(row["device"])]
    host = case.timeline.hosts[device.host].name
    slower = row["slower_compute_ms"] or 0.0
    why = (
        f"its own compute takes {slower:,.2f} ms longer than the median device's"
        if _is_slow(row)
        else "its compute takes no longer, so it starts late"
    )
    return (
        f"Device {row['device']} ({host}) is {row['kind']}: last in {row['last_share']:.0%} of its"
        f" meetings, {row['late_ms']:+,.3g} ms by the median and {row['p95_ms']:+,.3g} ms at the"
        f" 95th percentile, which costs {row['caused_ms']:,.2f} ms per step"
        f"{_where(case, row['device'])}; {why}"
    )


def _where(case: Case, device: int) -> str:
    """The collective at which a device costs the others most, where that is most of it."""
    caused = (
        lateness(case)
        .filter(pl.col("device") == device)
        .group_by("collective")
        .agg(pl.col("caused_ps").sum())
        .sort("caused_ps", "collective", descending=[True, False])
    )
    costs: list[int] = caused["caused_ps"].to_list()
    whole, most = sum(costs), costs[0]
    if not most or most < _MOSTLY * whole:
        return ""
    ops = number_collectives(case.timeline.ops.filter(pl.col("lane") == Lane.COLLECTIVE))
    name = ops.filter(pl.col("collective") == caused["collective"][0])["name"][0]
    return f", {most / whole:.0%} of it at {name}"


def _is_slow(row: dict[str, Any]) -> bool:
    slower = row["slower_compute_ms"] or 0.0
    return slower > 0 and slower >= _OWN_WORK * row["caused_ms"]


def _remedy(case: Case, late: list[dict[str, Any]]) -> Remedy:
    if not late:
        return advise(case, "even out what devices do between two collectives, or have fewer")
    device = late[0]["device"]
    if _is_slow(late[0]):
        return advise(
            case,
            f"find why device {device} computes longer: its clocks and temperature, or more work in"
            " its shard (`counterpoint explain ... --device"
            f" {device}`)",
        )
    return advise(
        case,
        f"look at what the host of device {device} does before its collectives: input, logging,"
        " checkpoints, other processes on its cores",
    )


def _doubt(case: Case) -> str | None:
    apart = [host.name for host in case.timeline.hosts[1:] if host.clock_offset_ps is None]
    if not apart:
        return None
    return f"clocks of {len(apart)} hosts could not be brought together: who is late is not known"
