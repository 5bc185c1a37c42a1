"""GPU hardware counters are restricted to administrators.

## What it does

Checks whether the driver denies ordinary users the performance counters.

## Why it costs time

Kernel traces, which profiles and PGLE need, are not restricted. Counters are: Nsight Compute and
DCGM's profiling metrics fail with ERR_NVGPUCTRPERM.

## How it is detected

The check reads `RmProfilingAdminOnly` in `/proc/driver/nvidia/params`, and the privileges of this
process.

## Example

```
RmProfilingAdminOnly: 1
```

## Fix

An administrator writes `options nvidia NVreg_RestrictProfilingToAdminUsers=0` to
`/etc/modprobe.d/nvidia-profiling.conf` and reloads the driver.

## Fix safety

Counters may reveal another user's work (CVE-2018-6260): keep the restriction on shared hosts.

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
        yield unknown("there is no /proc/driver/nvidia/params (a container may hide it)")
    elif not facts.gpus.admin_only or facts.privileged:
        yield ok("this process may read GPU counters")
    else:
        yield CheckResult(
            status=Status.NOTE,
            found="GPU counters are restricted to administrators (RmProfilingAdminOnly: 1)",
            wanted="RmProfilingAdminOnly: 0, to use Nsight Compute",
            why="JAX's traces still work; reading counters fails with ERR_NVGPUCTRPERM",
            remedy=f"echo 'options nvidia {_OPTION}' | sudo tee {_FILE}",
            source="https://developer.nvidia.com/CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
        )
