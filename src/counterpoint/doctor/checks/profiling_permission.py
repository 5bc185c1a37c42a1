"""Hardware counters of the GPUs are for administrators only.

## What it does

Says whether the driver keeps performance counters from ordinary users.

## Why it costs time

Traces of kernels, which profiles and PGLE need, are not restricted. Counters are: Nsight Compute
and DCGM's profiling metrics end with ERR_NVGPUCTRPERM.

## How it is detected

`RmProfilingAdminOnly` in `/proc/driver/nvidia/params`, and whether this process is privileged.

## Example

```
RmProfilingAdminOnly: 1
```

## Fix

An administrator writes `options nvidia NVreg_RestrictProfilingToAdminUsers=0` to
`/etc/modprobe.d/nvidia-profiling.conf` and loads the driver anew.

## Fix safety

Counters of one user may tell something of another's work (CVE-2018-6260): on shared hosts leave it.

## References

- https://developer.nvidia.com/CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok, unknown

CODE: Final = "DOC202"
NAME: Final = "profiling-permission"
SINCE: Final = "0.1"

_OPTION: Final = "NVreg_RestrictProfilingToAdminUsers=0"
_FILE: Final = "/etc/modprobe.d/nvidia-profiling.conf"


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict, a note at most: CUPTI's tracing works for all users."""
    if not facts.has_driver:
        yield not_applicable(facts.gpus.why_none)
    elif facts.gpus.admin_only is None:
        yield unknown("the driver shows no /proc/driver/nvidia/params (a container may hide it)")
    elif not facts.gpus.admin_only or facts.privileged:
        yield ok("GPU counters may be read by this process")
    else:
        yield CheckResult(
            status=Status.NOTE,
            found="GPU counters are for administrators only (RmProfilingAdminOnly: 1)",
            wanted="RmProfilingAdminOnly: 0 where Nsight Compute is to be used",
            why="JAX's traces work all the same; counters end with ERR_NVGPUCTRPERM",
            remedy=f"echo 'options nvidia {_OPTION}' | sudo tee {_FILE}",
            source="https://developer.nvidia.com/CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
        )
