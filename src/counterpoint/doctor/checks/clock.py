"""Nobody keeps this host's clock.

## What it does

Asks the kernel whether its clock is synchronised, and how far off it may be.

## Why it costs time

Profiles of several hosts are laid beside each other by their clocks, and logs are read so. With
clocks a second apart, who was late in a collective can't be told. Certificates and job systems
refuse clocks that are minutes off.

## How it is detected

`adjtimex`: the state that chrony, ntpd or timesyncd leave in the kernel. Not synchronised is a
warning on several hosts, else a note. Hosts are not compared.

## Example

```
the kernel's clock is not synchronised
```

## Fix

`sudo systemctl enable --now chrony` (or systemd-timesyncd).

## Fix safety

A clock that is stepped during a run makes its logs jump: start it before.

## False alarms

In virtual machines whose host sets their clock, the kernel may not be told.

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
    if clock.synchronised is None:
        yield unknown(f"the kernel does not tell of its clock: {clock.why_not or 'no adjtimex'}")
    elif clock.synchronised:
        error = clock.error_us
        within = "" if error is None else f", off by at most {error / 1000:,.1f} ms by its own word"
        yield ok(f"synchronised{within}")
    else:
        yield CheckResult(
            status=Status.WARNING if facts.hosts > 1 else Status.NOTE,
            found="the kernel's clock is not synchronised",
            wanted="chrony, ntpd or timesyncd",
            why="profiles and logs of several hosts are laid beside each other by their clocks",
            remedy="sudo systemctl enable --now chrony   # or systemd-timesyncd",
            source="https://man7.org/linux/man-pages/man2/adjtimex.2.html",
        )
