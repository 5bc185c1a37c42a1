"""Devices are idle between the kernels of a program.

## What it does

Adds up the gaps between kernels that are not the host's fault: their program had been launched. In
a predicted step, which has no host, all idle time is of this kind.

## Why it costs time

A GPU takes a microsecond or two from the end of one kernel to the start of the next. Thousands of
short kernels per step leave thousands of gaps. On a TPU these are waits within the program.

## How it is detected

The rule counts idle time within runs of programs whose kernels had been enqueued, and between runs
that had been launched before the gap began. If the profile does not tell when a run was launched,
the gap before it belongs to STEP301. On virtual CPU devices only gaps up to 100 us count: in longer
ones a thread waits for one of the machine's cores.

## Example

```text
2,600 kernels per step x 1.2 us = 3.1 ms
```

## Fix

Use fewer and larger kernels: more work per device, settings that fuse more, or command buffers that
launch many kernels at once.

## Fix safety

Command buffers change no numbers; a larger batch per device changes training.

## False alarms

Tracing each kernel lengthens the gaps: they are shorter without a profile. In bundles that hold
whole thunks, gaps inside a thunk are invisible.

## References

- https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-graphs
- https://github.com/openxla/xla/blob/main/xla/service/gpu/transforms/command_buffer_scheduling.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Basis, Range
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.host.causes import IdleCause
from counterpoint.diagnose.host.idle import WORTH, IdleTime, idle_gaps, idle_of
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP306"
NAME: Final = "kernel-gaps"
SINCE: Final = "0.1"


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    if not data.selection.occurrences:
        return
    idle = None if data.basis is Basis.PREDICTED else data.cached(idle_of)
    gaps = data.breakdown.idle_ms if idle is None else idle.ms(IdleCause.DEVICE)
    if gaps <= WORTH * data.step_ms:
        return
    longest = idle_gaps(data) if idle is None else idle.gaps(IdleCause.DEVICE)
    yield Finding(
        code=CODE,
        title=f"devices are idle for {ms_text(gaps)} per step between kernels",
        detail=(
            f"{gaps / data.step_ms:.0%} of the step: gaps from one kernel to the next; "
            + ("late launches by the host are not predicted" if idle is None else _by_host(idle))
        ),
        saves_ms=Range(0.0, gaps),
        basis=data.basis,
        evidence=(Evidence(what="gaps between kernels", ms=gaps, gaps=longest),),
        remedy=Remedy("fewer and larger kernels: more work per device, or settings that fuse more"),
        doubt=None if idle is None else "tracing each kernel lengthens the gaps between them",
    )


def _by_host(idle: IdleTime) -> str:
    """Say whether the host had launched the kernels behind the gaps, as far as it is known."""
    if not idle.seen:
        return "the profile does not show whether the host had launched them"
    return "the host had launched them"
