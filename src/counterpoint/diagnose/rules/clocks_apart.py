"""Clocks of hosts could not be aligned, or drift apart.

## What it does

Reports how precisely times of different hosts can be compared: hosts whose clocks have nothing in
common with the first one's, uncertain clocks, and clocks that run faster than others.

## Why it costs time

It costs none. But late ranks, waits and transfer times between hosts can't be determined from times
on different clocks.

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
(chrony or PTP); `counterpoint doctor --cluster` compares them before a run.

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

from counterpoint.core import Basis, Unknown
from counterpoint.diagnose.finding import Evidence, Finding, Remedy
from counterpoint.diagnose.host.consistency import clocks
from counterpoint.diagnose.network.host_work import spans_slices
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP608"
NAME: Final = "clocks-apart"
SINCE: Final = "0.1"

_LISTED: Final = 4
_OF_STEP: Final = 0.01
"""Share of the step above which an uncertainty or a drift hides possible losses."""

_UNKNOWN: Final = Unknown("it shows which times are comparable, not a possible gain")


def check(case: StepData) -> Iterator[Finding]:
    """Yield at most one finding on unrelated clocks, and one on uncertain or drifting clocks."""
    if len(case.timeline.hosts) < 2 or case.basis is Basis.PREDICTED:
        return
    rows = clocks(case.timeline).to_dicts()[1:]
    # Slices meet on the network only: without a common collective nothing is wrong with them.
    slices = spans_slices(case)
    apart = [row for row in rows if not row["aligned"] and not (slices and row["apart_ms"] == 0)]
    if apart:
        yield _apart(case, apart)
    limit = _OF_STEP * case.step_ms
    strays = [row for row in rows if row["aligned"] and _most(row) > limit > 0]
    if strays:
        yield _strays(case, strays)


def _most(row: dict[str, Any]) -> float:
    return max(row["spread_ms"] or 0.0, abs(row["drift_ms"] or 0.0))


def _apart(case: StepData, rows: list[dict[str, Any]]) -> Finding:
    distant = [row for row in rows if row["apart_ms"]]
    seconds = max((row["apart_ms"] for row in distant), default=0.0) / 1e3
    return Finding(
        code=CODE,
        title=(
            f"the clocks of {len(rows)} of {len(case.timeline.hosts)} hosts can't be compared with"
            f" the first host's ({case.timeline.hosts[0].name})"
        ),
        detail=(
            "they share no collective of all devices in the same run of a program"
            + (
                f"; the work of {len(distant)} is up to {seconds:,.1f} s away from the first"
                " host's:"
                " profiles of other steps, or wrong clocks"
                if distant
                else ""
            )
        ),
        saves_ms=_UNKNOWN,
        basis=case.basis,
        evidence=tuple(
            Evidence(what=case.timeline.hosts[int(row["host"])].name, ms=row["apart_ms"])
            for row in rows[:_LISTED]
        ),
        remedy=Remedy(
            "record all hosts in the same steps, and synchronize their clocks to one source"
        ),
    )


def _strays(case: StepData, rows: list[dict[str, Any]]) -> Finding:
    worst = max(rows, key=_most)
    name = case.timeline.hosts[int(worst["host"])].name
    drift = worst["drift_ppm"]
    return Finding(
        code=CODE,
        title=f"clocks of {len(rows)} hosts are accurate only to {_most(worst):,.2f} ms",
        detail=(
            f"ends of shared collectives on {name} deviate by {worst['spread_ms'] or 0.0:,.3f} ms"
            + (f", and its clock drifts by {drift:+,.1f} ppm" if drift is not None else "")
        ),
        saves_ms=_UNKNOWN,
        basis=case.basis,
        evidence=tuple(
            Evidence(what=case.timeline.hosts[int(row["host"])].name, ms=_most(row))
            for row in rows[:_LISTED]
        ),
        remedy=Remedy("ignore lateness below that; synchronize the clocks to one source (PTP)"),
    )
