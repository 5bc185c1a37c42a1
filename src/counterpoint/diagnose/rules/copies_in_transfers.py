"""Data is copied in host memory on its way between slices.

## What it does

Counts the memory copies within Megascale's network transfers, with their bytes and their time.

## Why it costs time

Megascale's transfers need no copy: the network reads and writes the memory that the TPU does. Where
a buffer does not lie in the region that was registered ahead it is copied there first, and a core
of the host copies at some GB/s what should go at the speed of the network.

## How it is detected

By `MegaScale: Memory Copy` events, and by copies on "Communication Transport" lines, in most steady
steps. A step gains at most what the busiest host spends on it per step, and at most what its
devices wait for other slices.

## Example

```text
MegaScale: Communication Transport Receive      4.3 ms
  MegaScale: Memory Copy                        1.2 ms    33.5 MB
```

## Fix

Raise `--megascale_grpc_premap_memory_bytes` (libtpu, LIBTPU_INIT_ARGS): to what it is now and the
bytes of one step, rounded up to a power of two; not beyond 64 GiB (STEP202).

```sh
export LIBTPU_INIT_ARGS="--megascale_grpc_premap_memory_bytes=17179869184"
```

## Fix safety

It takes that much of the host's memory for good.

## False alarms

Copies of small control messages.

## References

- https://openxla.org/xla/megascale/debugging_workflow
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Range
from counterpoint.diagnose.finding import Evidence, Finding
from counterpoint.diagnose.network.host_work import HostWork, enlarged, host_work
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline import Action

CODE: Final = "STEP203"
NAME: Final = "copies-in-transfers"
SINCE: Final = "0.1"


def check(case: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    work = host_work(case, Action.MEMORY_COPY)
    if work is None or not work.goes_on:
        return
    host = case.timeline.hosts[work.host].name
    yield Finding(
        code=CODE,
        title=(
            f"transfers between slices are copied in host memory for {work.host_ms:,.2f} ms per"
            " step"
        ),
        detail=_describe(work, host),
        saves_ms=Range(0.0, work.at_most_ms),
        basis=case.basis,
        evidence=(Evidence(what=f"memory copies on {host}", ms=work.host_ms),),
        remedy=enlarged(case, work),
    )


def _describe(work: HostWork, host: str) -> str:
    step = work.per_step
    sized = f" of {step.bytes / 1e6:,.1f} MB together" if step.bytes else ""
    return (
        f"{work.steps} of {work.of_steps} steady steps have copies, from step {work.first_step} on:"
        f" {step.count:,.1f} per step{sized} on {host}, {step.ms:,.2f} ms over its threads."
        f" Devices wait {work.waits_ms:,.2f} ms per step for other slices"
    )
