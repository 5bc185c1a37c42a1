"""Clocks of hosts could not be brought together, or run apart.

## What it does

Says how far times of different hosts can be compared: hosts whose clocks share nothing with the
first one's, clocks that stray, and clocks that run faster than others.

## Why it costs time

It costs none. But who comes late, who waits for whom and what a transfer between hosts takes can't
be told from times that lie on different clocks.

## How it is detected

Collectives of all devices end at nearly the same moment everywhere. The median difference of their
ends is taken off a host's times; how far single ends stray from it is the uncertainty, and its
course over the profile the drift. Hosts without shared collectives keep clocks of their own.

## Example

```text
host3    its work lies 4.2 s after that of host0, and they share no collective
```

## Fix

Record all hosts in the same steps of the same run. Let the hosts' clocks follow one source (chrony
or PTP); `counterpoint doctor --cluster` compares them before a run.

## Fix safety

Nothing changes in the program.

## False alarms

Programs that share no collective of all devices (inference replicas) can't be aligned, and need not
be. Slices of TPUs, which share none either, are only named where they worked at other times: a note
says that their clocks are their own.

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

_UNKNOWN: Final = Unknown("it says what times can be compared, not what a step can gain")


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
                f"; the work of {len(distant)} lies up to {seconds:,.1f} s from the first host's:"
                " profiles of other steps, or clocks that are that far off"
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
        remedy=Remedy("record all hosts in the same steps, and let their clocks follow one source"),
    )


def _strays(case: StepData, rows: list[dict[str, Any]]) -> Finding:
    worst = max(rows, key=_most)
    name = case.timeline.hosts[int(worst["host"])].name
    drift = worst["drift_ppm"]
    return Finding(
        code=CODE,
        title=f"clocks of {len(rows)} hosts are known to {_most(worst):,.2f} ms only",
        detail=(
            f"ends of shared collectives on {name} stray by {worst['spread_ms'] or 0.0:,.3f} ms"
            + (f", and its clock drifts by {drift:+,.1f} ppm" if drift is not None else "")
        ),
        saves_ms=_UNKNOWN,
        basis=case.basis,
        evidence=tuple(
            Evidence(what=case.timeline.hosts[int(row["host"])].name, ms=_most(row))
            for row in rows[:_LISTED]
        ),
        remedy=Remedy("take lateness below that for nothing; let clocks follow one source (PTP)"),
    )
