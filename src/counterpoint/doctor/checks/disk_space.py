"""Too little disk space for the run, its dumps or its profiles.

## What it does

Checks the free space of the working directory and of dump directories named by settings.

## Why it costs time

A profile of ten steps on eight GPUs takes hundreds of MB on each host, and so does a dump of a
large program. On a full disk they are truncated, and so may be a checkpoint.

## How it is detected

The check calls `statvfs` on each directory. Less than 2 GiB is a warning (rule of thumb).

## Example

```
/scratch: 0.3 GiB free (xla_dump_to)
```

## Fix

Write elsewhere: `counterpoint run -o DIR`, or another directory in the setting.

## Fix safety

The run itself does not change.

## References

- https://openxla.org/xla/hlo_dumps
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.checks.compilation_cache import SETTING as CACHE
from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, ok, unknown

CODE: Final = "DOC302"
NAME: Final = "disk-space"
SINCE: Final = "0.1"

_LEAST: Final = 2 * 2**30


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict for each directory that is full or not writable."""
    places = [place for place in facts.places if place.named_by != CACHE]
    known = [place for place in places if place.free_bytes is not None]
    if not known:
        yield unknown("no directory could be examined")
        return
    faulty = False
    for place in places:
        free = place.free_bytes
        if not place.writable:
            faulty = True
            yield CheckResult(
                status=Status.WARNING if place.named_by else Status.NOTE,
                found=f"{place.path} is not writable{_by(place.named_by)}",
                wanted="a directory that this user can write",
                why="output written there would be lost",
                remedy="counterpoint run -o DIR -- CMD",
            )
        elif free is not None and free < _LEAST:
            faulty = True
            yield CheckResult(
                status=Status.WARNING,
                found=f"{place.path}: {free / 2**30:,.1f} GiB free{_by(place.named_by)}",
                wanted="2 GiB (rule of thumb)",
                why="profiles and dumps of a large step take hundreds of MB on each host",
                remedy=f"df -h {place.path}",
                source="https://openxla.org/xla/hlo_dumps",
            )
    if not faulty:
        least = min(place.free_bytes or 0 for place in known)
        yield ok(f"{least / 2**30:,.0f} GiB free for runs, dumps and profiles")


def _by(setting: str) -> str:
    return f" ({setting})" if setting else ""
