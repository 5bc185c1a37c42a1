"""Host memory is registered for DMA in every step, not at start-up alone.

## What it does

Counts the `MapDmaBuffer` calls of the hosts, those at start-up apart from those of steady steps,
with their bytes and their time, and computes how much memory Megascale should register ahead.

## Why it costs time

A TPU reads and writes host memory only where it is registered, and to register a gigabyte takes
tenths of a second: pages are pinned one by one. Megascale does it once, for a region of
`--megascale_grpc_premap_memory_bytes`. What does not fit is registered when it is needed, while the
transfer waits.

## How it is detected

By calls in most steady steps. What lies before them is start-up, what only some steps have is an
evaluation or a checkpoint. A step gains at most what the busiest host spends on it per step, and at
most what its devices wait.

## Example

```text
MapDmaBuffer   10 ms    0.4 s   4.29 GB    start-up: as it should be
MapDmaBuffer  120 ms    8 ms    67.1 MB    step 1
MapDmaBuffer  140 ms    8 ms    67.1 MB    step 2, and so on
```

## Fix

Raise `--megascale_grpc_premap_memory_bytes`: to what it is now and the bytes of one step, rounded
up to a power of two. What it is now its own registration tells, of a region like that before the
first step. It is a flag of libtpu, read from LIBTPU_INIT_ARGS. Where 64 GiB would not hold it,
buffers are made anew that could be used again, and no region is large enough. Registrations of a
job of one slice have nothing to do with Megascale: there a program moves host arrays that are made
anew in each step.

```sh
export LIBTPU_INIT_ARGS="--megascale_grpc_premap_memory_bytes=17179869184"
```

## Fix safety

It takes that much of the host's memory for good.

## False alarms

Buffers of a few bytes, which cost microseconds; registrations on threads that run ahead of the
device, for which nothing waits.

## References

- https://openxla.org/xla/megascale/debugging_workflow
- https://github.com/apple/axlearn/blob/main/axlearn/common/compiler_options.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Range
from counterpoint.diagnose.finding import Evidence, Finding, Remedy
from counterpoint.diagnose.machines import advise
from counterpoint.diagnose.network.host_work import HostWork, enlarged, host_work, spans_slices
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline import Action

CODE: Final = "STEP202"
NAME: Final = "dma-registration"
SINCE: Final = "0.1"


def check(case: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    work = host_work(case, Action.MAP_BUFFER)
    if work is None or not work.goes_on:
        return
    step = work.per_step
    yield Finding(
        code=CODE,
        title=(
            f"each step registers {step.count:,.1f} host buffers for DMA, which takes"
            f" {work.host_ms:,.2f} ms"
        ),
        detail=describe(case, work),
        saves_ms=Range(0.0, work.at_most_ms),
        basis=case.basis,
        evidence=(Evidence(what=f"MapDmaBuffer on {_host(case, work)}", ms=work.host_ms),),
        remedy=_remedy(case, work),
        doubt=None
        if spans_slices(case)
        else "nothing here tells of transfers between slices: the buffers are not Megascale's",
    )


def describe(case: StepData, work: HostWork) -> str:
    """Describe which registrations are startup and which recur, in figures."""
    before, step = work.own_before, work.per_step
    return (
        f"{work.steps} of {work.of_steps} steady steps have such calls, from step"
        f" {work.first_step} on: {step.count:,.1f} per step{_sized(step.bytes)} on"
        f" {_host(case, work)}, {step.ms:,.2f} ms over its threads. Before them"
        f" {before.count:,.0f} calls{_sized(before.bytes)} there took {before.ms:,.0f} ms over all"
        " threads: start-up, which steady steps don't pay for"
    )


def _sized(amount: float | None) -> str:
    if amount is None:
        return " of unknown size"
    if amount < 1e6:
        return f" ({amount:,.0f} bytes)"
    return f" ({amount / 1e6:,.1f} MB)"


def _host(case: StepData, work: HostWork) -> str:
    return case.timeline.hosts[work.host].name


def _remedy(case: StepData, work: HostWork) -> Remedy:
    if spans_slices(case):
        return enlarged(case, work)
    return advise(
        case,
        "keep what moves between host and device in the same buffers: donate pinned_host arrays"
        " that a step gives back, and make no new host array per step",
    )
