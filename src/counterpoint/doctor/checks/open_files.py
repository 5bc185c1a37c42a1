"""The limit on open files is low for connections to many hosts.

## What it does

Checks `ulimit -n` of this process, which the run inherits.

## Why it costs time

Each connection is a file: NCCL's bootstrap and sockets, gRPC channels, data files of the input. At
the limit a run ends with "Too many open files", and at scale first.

## How it is detected

The check reads the current limit. Below 4096 it is a note on one host and a warning on several;
below 1024, the usual default, always a warning. Rule of thumb: NCCL opens several sockets per peer,
and each reader opens a file.

## Example

```
ulimit -n: 1024, up to 524288 without an administrator
```

## Fix

`ulimit -n 65536` in the script that starts the run, or Slurm's `PropagateResourceLimits`.

## Fix safety

Nothing else changes. Programs that close all possible files at startup become slower.

## References

- https://man7.org/linux/man-pages/man2/getrlimit.2.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, ok, unknown

CODE: Final = "DOC303"
NAME: Final = "open-files"
SINCE: Final = "0.1"

_LEAST: Final = 4096
_USUAL: Final = 1024
_WANTED: Final = 65536

_RAISE: Final = (
    f'echo "* - nofile {_WANTED}" | sudo tee /etc/security/limits.d/90-nofile.conf'
    "   # then log in again"
)


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict on the soft limit."""
    limit = facts.machine.open_files
    if limit is None:
        yield unknown("the limit on open files can't be read")
    elif limit.soft is None or limit.soft >= _LEAST:
        yield ok(f"open files: {_shown(limit.soft)}")
    else:
        most = _WANTED if limit.hard is None else min(_WANTED, limit.hard)
        own = most > limit.soft
        may = f"may raise it to {_shown(limit.hard)}" if own else "may not raise it"
        low = limit.soft < _USUAL
        yield CheckResult(
            status=Status.WARNING if facts.hosts > 1 or low else Status.NOTE,
            found=f"up to {limit.soft:,} open files (the run {may})",
            wanted=f"{_LEAST:,} or more (rule of thumb)",
            why="every connection to another host is an open file",
            remedy=f"ulimit -n {most}" if own else _RAISE,
            source="https://man7.org/linux/man-pages/man2/getrlimit.2.html",
        )


def _shown(limit: int | None) -> str:
    return "unlimited" if limit is None else f"{limit:,}"
