"""The kernel's clock is not synchronized.

## What it does

Reads from the kernel whether its clock is synchronized, and the maximum error of the clock.

## Why it costs time

Logs of several hosts are put in order by their clocks, and so are profiles of hosts that share no
collective; profiles of hosts that do are aligned on the ends of collectives. Certificates and job
schedulers reject clocks that are minutes off.

## How it is detected

`adjtimex` returns the state that chrony, ntpd or timesyncd leave in the kernel. An unsynchronized
clock is a warning if several hosts run together, otherwise a note. The check does not compare the
clocks of hosts with each other.

## Example

```
the kernel's clock is not synchronized
```

## Fix

`sudo systemctl enable --now chrony` (or systemd-timesyncd).

## Fix safety

A clock that is stepped during a run makes timestamps jump: start the service before the run.

## False alarms

In a virtual machine whose clock is set by its host, the kernel may report it as unsynchronized.

## References

- https://man7.org/linux/man-pages/man2/adjtimex.2.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, ok, unknown

CODE: Final = "DOC501"
NAME: Final = "clock"
SINCE: Final = "0.1"


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield the state of the kernel's clock."""
    clock = facts.machine.clock
    if clock.synchronized is None:
        yield unknown(
            f"the kernel does not report the state of its clock: {clock.why_not or 'no adjtimex'}"
        )
    elif clock.synchronized:
        error = clock.error_us
        within = "" if error is None else f", maximum error {error / 1000:,.1f} ms"
        yield ok(f"synchronized{within}")
    else:
        yield CheckResult(
            status=Status.WARNING if facts.hosts > 1 else Status.NOTE,
            found="the kernel's clock is not synchronized",
            wanted="chrony, ntpd or timesyncd",
            why="profiles and logs of several hosts are aligned by their clocks",
            remedy="sudo systemctl enable --now chrony   # or systemd-timesyncd",
            source="https://man7.org/linux/man-pages/man2/adjtimex.2.html",
        )
