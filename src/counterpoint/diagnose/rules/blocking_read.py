"""The host waits for a result in each step, and devices then wait for the host.

## What it does

Finds steps in which the thread that launches waits for what a device computes (`loss.item()`,
`float(loss)`, `np.asarray`, `device_get`, `block_until_ready`) before it calls the next step.

## Why it costs time

JAX launches ahead, and that hides the host's part of a step behind the device's. A host that waits
for a step's result can't: between two steps the device waits until the result has come, until
Python has looked at it, and until the next call is launched.

## How it is detected

Idle time between two runs, from the moment on at which the thread that launches is in such a wait,
except for input and compiling. Without the wait the host could have been ahead by as long as it
waited, no longer: the smaller of the two is what the step can gain. Where no host thread that
launches is recorded: idle time that begins where a copy to the host ends which is no op of a
program, as `float(loss)` leaves it behind each step.

## Example

```python
for batch in batches:
    state, loss = step(state, batch)
    print(loss.item())  # waits for the step to end
```

## Fix

Look at results one or more steps later, or every hundredth: keep `loss` as an array, and read the
one of the step before after calling the next. Leave `block_until_ready` to benchmarks.

## Fix safety

The numbers are the same, a step later. Errors (NaN checks) are seen a step later, too.

## False alarms

A benchmark waits on purpose, and a loop that needs the result on the host for its next step (an
environment, a sampler) has to.

## References

- https://docs.jax.dev/en/latest/async_dispatch.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Range
from counterpoint.diagnose.finding import Evidence, Finding, Remedy
from counterpoint.diagnose.host.hosts import IdleCause
from counterpoint.diagnose.host.idle import WORTH, idle_of
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP304"
NAME: Final = "blocking-read"
SINCE: Final = "0.1"


def check(case: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    idle = case.ask(idle_of)
    waiting = idle.hidden_by_not_waiting_ms
    if waiting <= WORTH * case.step_ms:
        return
    rows = idle.top(IdleCause.BLOCKED)
    inside = idle.ms(IdleCause.BLOCKED)
    yield Finding(
        code=CODE,
        title=(
            f"devices have nothing to do for {waiting:,.2f} ms per step "
            + ("because the host waits for a result" if idle.seen else "after a copy to the host")
        ),
        detail=(
            f"the thread that launches waits {idle.blocked_ms:,.2f} ms per step, {inside:,.2f} ms"
            " of that while no device works, and calls the next step only then: what else it does"
            " before could be done beside the step"
            if idle.seen
            else "a copy to the host that is no op of the program ends, and the next step begins"
            f" {waiting:,.2f} ms later: so does a loop that reads a result (float(loss))"
        ),
        saves_ms=Range(0.0, waiting),
        basis=case.basis,
        evidence=(
            Evidence(what="gaps from the wait on", ms=waiting, spans=idle.after),
            *(Evidence(what=what, ms=ms) for what, ms in rows),
        ),
        remedy=Remedy(
            "call the next step before you look at the last one's results: read `loss` a step"
            " later or every hundredth step, and leave block_until_ready to benchmarks"
        ),
        doubt=None if idle.seen else "the profile does not show the host: told by the copy alone",
    )
