"""The limit on locked memory is too low for RDMA.

## What it does

Checks `ulimit -l` if an InfiniBand or RoCE port is up.

## Why it costs time

Memory that a network card reads or writes must be locked. Above the limit its registration fails,
and NCCL exits, or uses TCP, which is many times slower.

## How it is detected

The check reads the current limit, unless the process is privileged. Less than 1 GiB is a warning:
NCCL's documentation asks for no limit.

## Example

```
ulimit -l: 8192 kB
```

## Fix

`ulimit -l unlimited`; for a container `--ulimit memlock=-1`; for a service `LimitMEMLOCK=infinity`.

## Fix safety

Locked memory is not swapped: a program that locks all memory starves others.

## References

- https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/runtime_and_mpi_issues.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok, unknown

CODE: Final = "DOC304"
NAME: Final = "locked-memory"
SINCE: Final = "0.1"

_LEAST: Final = 2**30
_SOURCE: Final = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/runtime_and_mpi_issues.html"


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict; the limit matters only with RDMA."""
    limit = facts.machine.locked
    if not facts.has_rdma:
        yield not_applicable("no InfiniBand or RoCE port is up")
    elif limit is None:
        yield unknown("the limit on locked memory can't be read")
    elif limit.soft is None or facts.privileged:
        yield ok("locked memory is unlimited")
    elif limit.soft >= _LEAST:
        yield ok(f"{limit.soft / 2**30:,.1f} GiB of locked memory")
    else:
        yield CheckResult(
            status=Status.WARNING,
            found=f"{limit.soft / 2**20:,.1f} MiB of locked memory",
            wanted="no limit",
            why="registering more memory with the network card fails",
            remedy="ulimit -l unlimited   # container: --ulimit memlock=-1",
            source=_SOURCE,
        )
