"""Some ranks did not report.

## What it does

Names the ranks without a report, and under Slurm the nodes without any report.

## Why it costs time

A run waits for all its ranks before it starts: a missing one keeps all devices idle until a
timeout, minutes later.

## How it is detected

Rank 0 waits `--timeout` seconds for the ranks that the launcher started.

## Example

```
1 of 8 ranks did not report within 60 s: 5 (no report from node5)
```

## Fix

Read the output of that rank, which shows why it could not report: a directory that is not shared
(`--meet DIR`), or a host that starts slowly (`--timeout 300`). A rank without output was not
started, or ended before it printed anything.

## Fix safety

Nothing is changed.

## References

- https://docs.jax.dev/en/latest/multi_process.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core.printable import some
from counterpoint.doctor.result import CheckResult, HostReports, Status, ok

CODE: Final = "DOC603"
NAME: Final = "missing-ranks"
SINCE: Final = "0.1"
_NAMED: Final = 32


def check(host_reports: HostReports) -> Iterator[CheckResult]:
    """Yield one verdict on all ranks."""
    missing = host_reports.missing
    if not missing:
        yield ok(f"all {host_reports.size} ranks reported")
        return
    present = {report.node for report in host_reports.reports}
    silent = [node for node in host_reports.nodes if node not in present]
    yield CheckResult(
        status=Status.ERROR,
        found=f"{len(missing)} of {host_reports.size} ranks did not report within"
        f" {host_reports.seconds:g} s: {some([str(rank) for rank in missing], _NAMED)}"
        + (f" (no report from {some(silent, _NAMED)})" if silent else ""),
        wanted="all of them",
        why="a run waits for all its ranks before it starts",
        remedy="counterpoint doctor --cluster --meet DIR --timeout 300   # read that rank's output",
        source="https://docs.jax.dev/en/latest/multi_process.html",
    )
