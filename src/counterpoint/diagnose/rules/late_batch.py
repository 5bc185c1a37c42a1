"""Devices wait while data are copied to them.

## What it does

Takes the time of a step in which a device has nothing to do because the host is still putting
arguments on it: `device_put`, sharding a batch, an argument of the call that lies on the host.

## Why it costs time

A program can't begin before its arguments are there. A copy that begins when the last step has
ended runs with nobody to hide it; one that begins a step ahead costs nothing.

## How it is detected

Idle time between two runs, where the call of the later one came late, and the thread that launches
(or, where that waits, another one) is in a transfer to devices. Copies on devices that nothing
hides are STEP505's.

## Example

```python
for batch in batches:  # NumPy arrays
    state, loss = step(state, batch)  # copies the batch first, then launches
```

## Fix

Put the next batch on the devices before the step that runs is over (`jax.device_put` returns at
once), with the sharding that the step expects, so that the call moves nothing.

## Fix safety

The same numbers; two batches lie on the devices.

## False alarms

The time of `device_put` on the thread is its launch. Where arrays lie elsewhere on devices already,
the call reshards them: then give them the step's sharding when they are made.

## References

- https://docs.jax.dev/en/latest/async_dispatch.html
- https://docs.jax.dev/en/latest/_autosummary/jax.device_put.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Range
from counterpoint.diagnose.finding import Evidence, Finding, Remedy
from counterpoint.diagnose.host.hosts import IdleCause
from counterpoint.diagnose.host.idle import WORTH, idle_of
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP305"
NAME: Final = "late-batch"
SINCE: Final = "0.1"


def check(case: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    waiting = case.ask(idle_of).host_ms(IdleCause.TRANSFER)
    if waiting <= WORTH * case.step_ms:
        return
    rows = case.ask(idle_of).top(IdleCause.TRANSFER)
    yield Finding(
        code=CODE,
        title=f"devices wait {waiting:,.2f} ms per step while the host copies data to them",
        detail=(
            f"{waiting / case.step_ms:.0%} of the step: the host puts arguments on devices while"
            " no work is left"
        ),
        saves_ms=Range(0.0, waiting),
        basis=case.basis,
        evidence=(
            Evidence(what="gaps before the next step", ms=waiting, spans=case.ask(idle_of).after),
            *(Evidence(what=what, ms=ms) for what, ms in rows),
        ),
        remedy=Remedy(
            "put the next batch on the devices while a step runs (jax.device_put with the sharding"
            " that the step expects), so that the call itself moves nothing"
        ),
    )
