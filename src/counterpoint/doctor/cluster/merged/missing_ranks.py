"""Ranks that were started did not report.

## What it does

Names the ranks from which nothing came.

## Why it costs time

A run waits for all of its ranks before it starts: one that does not come keeps all devices idle
until a timeout, minutes later, says so.

## How it is detected

Rank 0 waits for as many ranks as the launcher says there are, `--timeout` seconds long.

## Example

```
1 of 8 ranks did not report within 60 s: 5
```

## Fix

Look at that rank's own output: it says why it could not reach rank 0. A firewall between hosts, a
directory that is not shared (`--meet DIR`), or a host that is slow to start (`--timeout 300`).

## Fix safety

Nothing is changed.

## References

- https://docs.jax.dev/en/latest/multi_process.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.cluster.gathering import Gathering
from counterpoint.doctor.diagnosis import Status, Verdict, ok

CODE: Final = "DOC603"
NAME: Final = "missing-ranks"
SINCE: Final = "0.1"


def check(gathering: Gathering) -> Iterator[Verdict]:
    """All of them in one."""
    missing = gathering.missing
    if not missing:
        yield ok(f"all {gathering.size} ranks reported")
        return
    left = set(gathering.left)
    names = [f"{rank}{' (it came, and left)' if rank in left else ''}" for rank in missing]
    shown = ", ".join(names[:32]) + (f" and {len(names) - 32} more" if len(names) > 32 else "")
    yield Verdict(
        status=Status.ERROR,
        found=f"{len(missing)} of {gathering.size} ranks did not report"
        f" within {gathering.seconds:g} s: {shown}",
        wanted="all of them",
        why="a run waits for all of its ranks before it starts",
        remedy="counterpoint doctor --cluster --meet DIR --timeout 300   # and that rank's output",
        source="https://docs.jax.dev/en/latest/multi_process.html",
    )
