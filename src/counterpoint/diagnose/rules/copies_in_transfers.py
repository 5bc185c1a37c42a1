"""Transfers between slices are copied in host memory.

## What it does

Counts the memory copies within Megascale's network transfers, with their bytes and time.

## Why it costs time

Megascale's transfers need no copy: the network reads and writes the same memory as the TPU. A
buffer outside of the region registered in advance is copied into it first, by a core of the host,
at a few GB/s instead of the speed of the network.

## How it is detected

The rule counts `MegaScale: Memory Copy` events, and copies on "Communication Transport" lines, in
most steady steps. The saving is at most the time that the busiest host spends on it per step, and
at most the time that its devices wait for other slices. Where slack hides the copies, the finding
says so and gives no saving: they show as soon as a step has less slack or the network is slower.

## Example

```text
MegaScale: Communication Transport Receive      4.3 ms
  MegaScale: Memory Copy                        1.2 ms    33.5 MB
```

## Fix

Raise `--megascale_grpc_premap_memory_bytes` (libtpu, LIBTPU_INIT_ARGS) to its current value plus
the bytes of one step, rounded up to a power of two, up to 64 GiB (STEP202).

```sh
export LIBTPU_INIT_ARGS="--megascale_grpc_premap_memory_bytes=17179869184"
```

## Fix safety

The host's memory is occupied permanently.

## False alarms

Copies of small control messages are harmless.

## References

- https://openxla.org/xla/megascale/debugging_workflow
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Unknown
from counterpoint.diagnose.finding import Evidence, Finding, ms_text
from counterpoint.diagnose.network.host_work import HostWork, host_work
from counterpoint.diagnose.network.premap import enlarged
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.model import Action

CODE: Final = "STEP203"
NAME: Final = "copies-in-transfers"
SINCE: Final = "0.1"


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    work = host_work(data, Action.MEMORY_COPY)
    if work is None or not work.goes_on:
        return
    saves = work.saves_ms(data.step_ms)
    if saves is None:
        return
    host = data.timeline.hosts[work.host].name
    hidden = "; hidden today" if isinstance(saves, Unknown) else ""
    yield Finding(
        code=CODE,
        title=(
            f"copies of transfers between slices in host memory take {ms_text(work.host_ms)} per"
            f" step{hidden}"
        ),
        detail=_describe(work, host),
        saves_ms=saves,
        basis=data.basis,
        evidence=(
            Evidence(what=f"memory copies on {host}", ms=work.host_ms, transfers=work.longest),
        ),
        remedy=enlarged(data, work),
    )


def _describe(work: HostWork, host: str) -> str:
    step = work.per_step
    sized = f" of {step.bytes / 1e6:,.1f} MB together" if step.bytes else ""
    return (
        f"{work.steps} of {work.of_steps} steady steps have copies, from step {work.first_step} on:"
        f" {step.count:,.1f} per step{sized} on {host}, {ms_text(step.ms)} summed over its threads."
        f" Devices wait {ms_text(work.waits_ms)} per step for other slices"
    )
