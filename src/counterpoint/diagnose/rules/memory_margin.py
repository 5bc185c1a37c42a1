"""Device memory is nearly full, or half of it is never used.

## What it does

Compares the peak memory of the fullest device with what the program may use.

## Why it costs time

If memory is nearly full, fragmentation can make the run exceed its memory after hours, XLA's
scheduler keeps fewer collectives in flight to stay below its limit, and its rematerialization
repeats work. If it is half empty, recomputation and small batches per device cost time needlessly.

## How it is detected

In a Run, JAX's allocator reports the peak and the limit of each device. A peak above 95% of the
limit is too close; with a peak below half of the chip's memory, memory is unused. The rule is
silent without a Run, and if neither the allocator nor `XLA_PYTHON_CLIENT_MEM_FRACTION` gives the
limit.

## Example

```text
peak 71.9 GiB of 74.4 GiB (H100, XLA_PYTHON_CLIENT_MEM_FRACTION=0.94)
```

## Fix

Too close: set a larger share if the chip has more memory; otherwise donate the state, set a
checkpoint policy, or shard more. Unused: use a larger batch per device, or a policy that keeps
more.

## Fix safety

Leave 5 to 10% of the chip for NCCL, cuBLAS and CUDA graphs. A larger batch changes training.

## False alarms

The peak covers the whole process, including startup, evaluation and checkpoints.

## References

- https://docs.jax.dev/en/latest/gpu_memory_allocation.html
- https://github.com/openxla/xla/blob/main/xla/service/latency_hiding_scheduler.cc (memory limit)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Unknown
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.memory import GIB, DeviceMemory, by_compiler, by_request, memory_of
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP403"
NAME: Final = "memory-margin"
SINCE: Final = "0.1"

_NEAR: Final = 0.95
"""Share of the limit: XLA's own scheduler keeps 5% free (xla_gpu_memory_limit_slop_factor=95)."""
_LITTLE: Final = 0.5
_FRACTION: Final = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_MORE: Final = 0.92
_ROOM: Final = 0.02  # minimum share of the chip that a larger fraction must add


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    memory = memory_of(data)
    if memory is None:
        return
    if memory.limit is not None and memory.peak > _NEAR * memory.limit:
        yield _near(data, memory, memory.limit)
    elif memory.whole is not None and memory.peak < _LITTLE * memory.whole:
        yield _much_left(data, memory, memory.whole)


def _near(data: StepData, memory: DeviceMemory, limit: int) -> Finding:
    repeated = float(by_compiler(data)["ms"].sum())
    suffix = f"; XLA recomputes for {ms_text(repeated)} per step to stay below" if repeated else ""
    return Finding(
        code=CODE,
        title=f"{memory.peak / limit:.0%} of the available device memory is in use",
        detail=(
            f"the fullest device used {_gib(memory.peak)} of {_gib(limit)}: a little more, or"
            f" fragmentation, and it runs out of memory{suffix}"
        ),
        saves_ms=Unknown("a risk, and a schedule that minimizes memory"),
        basis=data.basis,
        evidence=(Evidence(what=f"peak {_gib(memory.peak)} of {_gib(limit)}", ms=None),),
        remedy=_more(data, memory, limit),
    )


def _more(data: StepData, memory: DeviceMemory, limit: int) -> Remedy:
    advice = "donate the state, keep less for the backward pass, or shard more"
    whole, kinds = memory.whole, {device.kind for device in data.timeline.devices}
    if whole is None or kinds != {"gpu"} or limit > (_MORE - _ROOM) * whole:
        return advise(data, advice)
    return Remedy(
        f"give the program a larger share of the chip's {_gib(whole)}, or {advice}",
        environment=((_FRACTION, str(_MORE)),),
    )


def _much_left(data: StepData, memory: DeviceMemory, whole: int) -> Finding:
    repeated = float(by_request(data)["ms"].sum())
    use = (
        f"keep more for the backward pass, which recomputes for {ms_text(repeated)} per step"
        if repeated
        else "use a larger batch per device, if training allows it"
    )
    return Finding(
        code=CODE,
        title=f"{1 - memory.peak / whole:.0%} of device memory is never used",
        detail=f"the fullest device used {_gib(memory.peak)} of the chip's {_gib(whole)}",
        saves_ms=Unknown("depends on what the memory is used for"),
        basis=data.basis,
        evidence=(Evidence(what=f"peak {_gib(memory.peak)} of {_gib(whole)}", ms=None),),
        remedy=advise(data, use),
    )


def _gib(size: int) -> str:
    return f"{size / GIB:,.1f} GiB"
