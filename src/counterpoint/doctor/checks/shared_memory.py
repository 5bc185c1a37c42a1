"""Shared memory is too small for NCCL.

## What it does

Checks the size and the free space of `/dev/shm`.

## Why it costs time

NCCL uses it to pass data between processes and threads of a host. If it is too small, NCCL does not
start: "failed to extend /dev/shm/nccl-...". Containers get 64 MiB by default.

## How it is detected

The check calls `statvfs`. Less than 1 GiB in total, or less than 256 MiB free, is a warning on
hosts with GPUs, else a note: input pipelines with several processes use it, too.

## Example

```
/dev/shm: 64 MiB, in a container
```

## Fix

`docker run --shm-size=1g`; in Kubernetes an `emptyDir` with `medium: Memory` mounted at /dev/shm.

## Fix safety

It is memory: used space counts toward the container's limit.

## References

- https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/runtime_and_mpi_issues.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, ok, unknown

CODE: Final = "DOC305"
NAME: Final = "shared-memory"
SINCE: Final = "0.1"

_WHERE: Final = "/dev/shm"  # noqa: S108 - only displayed
_LEAST: Final = 2**30
_FREE: Final = 2**28
_SOURCE: Final = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/runtime_and_mpi_issues.html"


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict on its size and free space."""
    size, free = facts.machine.shared_bytes, facts.machine.shared_free
    if size is None:
        yield unknown("there is no /dev/shm")
        return
    if size >= _LEAST and (free is None or free >= _FREE):
        yield ok(f"{_WHERE}: {size / 2**30:,.1f} GiB")
        return
    small = size < _LEAST
    yield CheckResult(
        status=Status.WARNING if facts.has_driver else Status.NOTE,
        found=f"{_WHERE}: {size / 2**20:,.0f} MiB"
        + ("" if free is None else f", {free / 2**20:,.0f} MiB free")
        + (", in a container" if facts.machine.container else ""),
        wanted="1 GiB" if small else "256 MiB free (rule of thumb)",
        why="NCCL does not start without space there",
        remedy=_remedy(small, facts.machine.container),
        source=_SOURCE,
    )


def _remedy(small: bool, container: bool) -> str:
    if not small:
        return "ls -lh /dev/shm   # remove files of ended processes"
    if container:
        return "docker run --shm-size=1g ...   # Kubernetes: emptyDir, medium: Memory"
    return "sudo mount -o remount,size=1G /dev/shm"
