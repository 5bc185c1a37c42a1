"""Devices wait while data is copied to them.

## What it does

Measures the time of a step in which a device is idle because the host still transfers arguments:
`device_put`, sharding a batch, an argument of the call that is on the host.

## Why it costs time

A program can't start before its arguments are on the device. A copy that starts after the last step
has nothing to hide it; one that starts a step ahead costs nothing.

## How it is detected

The rule counts idle time between two runs if the later call came late and the launching thread (or,
if that thread waits, another one) is in a transfer to devices. Exposed copies on devices are
STEP505.

## Example

```python
for batch in batches:  # NumPy arrays
    state, loss = step(state, batch)  # copies the batch first, then launches
```

## Fix

Put the next batch on the devices while the current step runs (`jax.device_put` returns at once),
with the sharding that the step expects, so that the call moves nothing.

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

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Range
from counterpoint.diagnose.finding import Finding, Remedy, ms_text
from counterpoint.diagnose.host.causes import IdleCause
from counterpoint.diagnose.host.idle import WORTH, idle_of
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP305"
NAME: Final = "late-batch"
SINCE: Final = "0.1"


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    idle = data.cached(idle_of)
    waiting = idle.host_ms(IdleCause.TRANSFER)
    if waiting <= WORTH * data.step_ms:
        return
    yield Finding(
        code=CODE,
        title=f"devices wait {ms_text(waiting)} per step while the host copies data to them",
        detail=(
            f"{waiting / data.step_ms:.0%} of the step: the host transfers arguments while devices"
            " are idle"
        ),
        saves_ms=Range(0.0, waiting),
        basis=data.basis,
        evidence=idle.evidence(IdleCause.TRANSFER),
        remedy=Remedy(
            "put the next batch on the devices while a step runs (jax.device_put with the step's"
            " sharding), so that the call itself moves nothing"
        ),
    )
