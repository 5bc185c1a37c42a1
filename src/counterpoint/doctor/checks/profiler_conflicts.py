"""Another tool uses, or may use, the GPU's profiling interface.

## What it does

Finds Nsight Systems around this process, injected CUDA tools, DCGM, compute-sanitizer and profilers
that capture through JAX's server.

## Why it costs time

CUPTI serves one subscriber: the profile of the run contains no kernels, and a PGLE profile made
from it is empty. This shows only when the run is over. Newer releases of CUPTI and XLA share
(`xla_gpu_enable_cupti_multi_subscriber`; not tried).

## How it is detected

The check looks at environment variables (`NSYS_PROFILING_SESSION_ID`, `NVTX_INJECTION64_PATH`,
`CUDA_INJECTION64_PATH`) and the names of visible processes. A tool that always prevents a profile
is a warning; one that may prevent it is a note.

## Example

```sh
nsys profile counterpoint run -- python train.py
```

## Fix

Profile without the other tool, or pause it: `dcgmi profile --pause`.

## Fix safety

Pausing DCGM stops its metrics for everyone on this host.

## False alarms

DCGM does no harm if it samples no profiling counters. Processes of other users may be invisible.

## References

- https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html
- https://github.com/NVIDIA/DCGM/issues/56
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok

CODE: Final = "DOC201"
NAME: Final = "profiler-conflicts"
SINCE: Final = "0.1"


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict for each conflicting tool."""
    if not facts.has_driver:
        yield not_applicable(facts.gpus.why_none)
        return
    from counterpoint.pgle.making.contention import conflicts

    others = conflicts(facts.environment, facts.processes, facts.software.packages.get("jaxlib"))
    for conflict in others:
        yield CheckResult(
            status=Status.WARNING if conflict.certain else Status.NOTE,
            found=f"{conflict.who}: {conflict.shown_by}",
            wanted="no other tool at the profiling interface while a profile is recorded",
            why=conflict.effect,
            remedy=conflict.next,
            source="https://github.com/NVIDIA/DCGM/issues/56" if conflict.who == "DCGM" else "",
        )
    if not others:
        yield ok("no other tool found at the profiling interface")
