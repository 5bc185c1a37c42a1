"""Devices wait while data is copied to them or from them.

## What it does

Measures the time of a step in which a device is idle because data is still copied: `device_put`, an
argument of a call that is on the host, an array that moves to another memory or to other devices,
results that NumPy copies. It says which of these it is, by the names that JAX records.

## Why it costs time

A program can't start before its arguments are on the device. A copy that starts after the last step
has nothing to hide it; one that starts a step ahead costs nothing.

## How it is detected

The rule counts idle time between two runs if the later call came late and the launching thread (or,
if that thread waits, another one) is in a transfer, or waits after it has begun one and called
nothing since. If the later run was launched in time, idle time counts while a copy is made that
goes on until the run begins. Exposed copies on devices are STEP505. How many bytes were copied is
in the profile only where devices record their copies. Where a copy call of the driver lasts ten
times as long as all copies on the devices, it waits for earlier work, and the finding says so
without a saving.

## Example

```python
for batch in batches:  # NumPy arrays
    state, loss = step(state, batch)  # copies the batch first, then launches
```

## Fix

Put the next batch on the devices while the current step runs (`jax.device_put` returns at once),
with the sharding that the step expects, so that the call moves nothing. Arrays that move between
memories or shardings in each step: create them where they are used, offload less, or let the copy
overlap a step. Results: copy them less often, or from another thread.

## Fix safety

The numbers are the same; two batches are on the devices.

## False alarms

The time of `device_put` on the thread is that of its launch. If arrays are already on devices with
another sharding, the call reshards them: create them with the sharding of the step.

## References

- https://docs.jax.dev/en/latest/async_dispatch.html
- https://docs.jax.dev/en/latest/_autosummary/jax.device_put.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import polars as pl

from counterpoint.core import Range, Unknown
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.host.causes import IdleCause
from counterpoint.diagnose.host.idle import WORTH, idle_of
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.model import Lane

_WAITS: Final = re.compile(r"^(?:cu|cuda|hip)Memcpy").search
"""Calls of the driver that may wait for all earlier work on their stream."""
_ALL: Final = 1_000
_MOSTLY: Final = 0.5
_LONGER: Final = 10
"""A copy call this many times longer than all copies waits for something else."""

CODE: Final = "STEP305"
NAME: Final = "late-batch"
SINCE: Final = "0.1"


class _Kind(NamedTuple):
    """A way to copy: the events that tell it, what it is, and what helps."""

    sign: str
    what: str
    remedy: str


_AHEAD: Final = (
    "put the next batch on the devices while a step runs (jax.device_put with the step's sharding),"
    " so that the call itself moves nothing"
)
_ANY: Final = _Kind("", "data is copied while devices are idle", _AHEAD)
_KINDS: Final = (
    _Kind(
        r"^DevicePut$",
        "a jitted function is called with arrays that are on the host (NumPy), so each call copies"
        " them first",
        f"{_AHEAD}; what stays the same from step to step, put there once before the loop",
    ),
    _Kind(
        r"^DevicePutWithSharding$|^\$\S+ _shard_np_array$",
        "device_put copies arrays from the host",
        f"{_AHEAD}, and don't wait for the copy",
    ),
    _Kind(
        r"^\$\S+ (shard_sharded_device_array\w*|shard_device_array)$",
        "device_put gives an array that is on devices another sharding, a copy through the host",
        "create the array with the sharding that it needs (jit's out_shardings), or change it"
        " within a jitted function (jax.lax.with_sharding_constraint): devices then copy directly",
    ),
    _Kind(
        r"^(batched_copy_array_to_devices|BatchedCopyToDevice|CopyToMemorySpace)",
        "device_put copies an array that is on a device to another memory (offloading to"
        " pinned_host and back) or to other devices",
        "leave on the device what each step needs, or begin the copy a step ahead and don't wait"
        " for it, so that it overlaps the step",
    ),
    _Kind(
        r"^\$numpy (array|asarray|ascontiguousarray|copy|copyto)$",
        "NumPy copies results or batches on the host",
        "copy less and less often: read what is needed every few steps, after the next step was"
        " called, or on another thread",
    ),
)


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    idle = data.cached(idle_of)
    waiting = idle.host_ms(IdleCause.TRANSFER)
    if waiting <= WORTH * data.step_ms:
        return
    copied = copied_ms(data)
    in_calls = sum(ms for what, ms in idle.top(IdleCause.TRANSFER, count=_ALL) if _WAITS(what))
    if in_calls > _MOSTLY * waiting and in_calls > _LONGER * copied:
        yield _waiting(data, in_calls, copied, idle.evidence(IdleCause.TRANSFER))
        return
    kind = _kind(data)
    yield Finding(
        code=CODE,
        title=f"devices wait {ms_text(waiting)} per step while the host copies data",
        detail=f"{waiting / data.step_ms:.0%} of the step: {kind.what}",
        saves_ms=Range(0.0, waiting),
        basis=data.basis,
        evidence=idle.evidence(IdleCause.TRANSFER),
        remedy=advise(data, kind.remedy),
    )


def _kind(data: StepData) -> _Kind:
    """Return the kind of copy of which an event takes most of the typical steps."""
    events, windows = data.timeline.host_events, data.selection.windows
    if not len(events) or not len(windows):
        return _ANY
    names = pl.Series(data.timeline.host_names, dtype=pl.String)
    begin, end = windows["start_ps"].to_numpy().min(), windows["end_ps"].to_numpy().max()
    within = events.filter(pl.col("start_ps").is_between(begin, end))

    def longest_ps(kind: _Kind) -> int:
        own = within.filter(pl.col("name").is_in(names.str.contains(kind.sign).arg_true()))
        return max(own.group_by("name").agg(pl.col("dur_ps").sum())["dur_ps"].to_list(), default=0)

    kind = max(_KINDS, key=longest_ps)
    return kind if longest_ps(kind) else _ANY


def copied_ms(data: StepData) -> float:
    """Return how long devices copy, per step."""
    return float(data.ops.filter(pl.col("lane") == Lane.COPY)["self_ms"].sum())


def _waiting(
    data: StepData, in_calls: float, copied: float, evidence: tuple[Evidence, ...]
) -> Finding:
    """Return the finding for calls that last much longer than what they copy."""
    return Finding(
        code=CODE,
        title=f"devices are idle for {ms_text(in_calls)} per step while a call that copies waits",
        detail=(
            f"the host is in copy calls of the driver for {ms_text(in_calls)}, and devices copy for"
            f" {ms_text(copied)}: the calls wait for earlier work, which is not in the profile"
        ),
        saves_ms=Unknown("what the calls wait for is not recorded"),
        basis=data.basis,
        evidence=evidence,
        remedy=Remedy(
            "profile from an earlier moment, so that the work before the copy is recorded; copies"
            " from pinned memory, without blocking, let the host go on"
        ),
    )
