"""Host memory is registered for DMA in every step, not only at startup.

## What it does

Counts the `MapDmaBuffer` calls of the hosts, separately for startup and steady steps, with their
bytes and time, and computes how much memory Megascale should register in advance.

## Why it costs time

A TPU reads and writes only registered host memory, and registering a gigabyte takes tenths of a
second, because pages are pinned one by one. Megascale does this once, for a region of
`--megascale_grpc_premap_memory_bytes`. Buffers that don't fit are registered when they are needed,
while the transfer waits.

## How it is detected

The rule counts the calls that occur in most steady steps. Earlier calls are startup; calls in only
some steps belong to an evaluation or a checkpoint. The saving is at most the time that the busiest
host spends on it per step, and at most the time that its devices wait. Where slack hides the calls
of a job of several slices, the finding says so and gives no saving: they are a symptom all the
same, and show as soon as a step has less slack or the network is slower.

## Example

```text
MapDmaBuffer   10 ms    0.4 s   4.29 GB    start-up: as it should be
MapDmaBuffer  120 ms    8 ms    67.1 MB    step 1
MapDmaBuffer  140 ms    8 ms    67.1 MB    step 2, and so on
```

## Fix

Raise `--megascale_grpc_premap_memory_bytes` to its current value plus the bytes of one step,
rounded up to a power of two. A registration of that size before the first step shows the current
value. It is a flag of libtpu, read from LIBTPU_INIT_ARGS. If 64 GiB would not suffice, the program
allocates new buffers instead of reusing them, and no region is large enough. In a job of a single
slice, registrations have nothing to do with Megascale: the program moves host arrays that it
allocates in each step.

```sh
export LIBTPU_INIT_ARGS="--megascale_grpc_premap_memory_bytes=17179869184"
```

## Fix safety

The host's memory is occupied permanently.

## False alarms

Buffers of a few bytes cost only microseconds. In a job of a single slice, nothing waits for
registrations on threads that run ahead of the device.

## References

- https://openxla.org/xla/megascale/debugging_workflow
- https://github.com/apple/axlearn/blob/main/axlearn/common/compiler_options.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Unknown
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.network.host_work import HostWork, host_work, sized
from counterpoint.diagnose.network.premap import enlarged, spans_slices
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.model import Action

CODE: Final = "STEP202"
NAME: Final = "dma-registration"
SINCE: Final = "0.1"


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    work = host_work(data, Action.MAP_BUFFER)
    if work is None or not work.goes_on:
        return
    saves = work.saves_ms(data.step_ms)
    # Of a single slice, threads that run ahead of the device register what it moves later.
    if saves is None or (isinstance(saves, Unknown) and not spans_slices(data)):
        return
    step, took = work.per_step, ms_text(work.host_ms)
    hidden = "; hidden today" if isinstance(saves, Unknown) else ""
    yield Finding(
        code=CODE,
        title=(
            f"each step registers {step.count:,.1f} host buffers for DMA (MapDmaBuffer), in"
            f" {took}{hidden}"
        ),
        detail=describe(data, work),
        saves_ms=saves,
        basis=data.basis,
        evidence=(
            Evidence(
                what=f"MapDmaBuffer on {_host(data, work)}",
                ms=work.host_ms,
                transfers=work.longest,
            ),
        ),
        remedy=_remedy(data, work),
        doubt=None
        if spans_slices(data)
        else "no transfers between slices: the buffers are not Megascale's",
    )


def describe(data: StepData, work: HostWork) -> str:
    """Describe which registrations are startup and which recur, in figures."""
    before, step = work.before, work.per_step
    return (
        f"{work.steps} of {work.of_steps} steady steps have such calls, from step"
        f" {work.first_step} on: {step.count:,.1f} per step{sized(step.bytes)} on"
        f" {_host(data, work)}, {ms_text(step.ms)} summed over its threads. Startup before them:"
        f" {before.count:,.0f} calls{sized(before.bytes)}, {before.ms:,.0f} ms summed over threads"
    )


def _host(data: StepData, work: HostWork) -> str:
    return data.timeline.hosts[work.host].name


def _remedy(data: StepData, work: HostWork) -> Remedy:
    if spans_slices(data):
        return enlarged(data, work)
    return advise(
        data,
        "reuse the buffers that move between host and device: donate pinned_host arrays that a"
        " step returns, and create no new host array per step",
    )
