"""The host waits for a result in each step, and devices then wait for the host.

## What it does

Finds steps in which the launching thread waits for a result of a device (`loss.item()`,
`float(loss)`, `np.asarray`, `device_get`, `block_until_ready`) before it calls the next step.

## Why it costs time

JAX launches ahead, which hides the host's part of a step behind the device's. A host that waits for
a step's result can't: between two steps the device waits until the result has arrived, Python has
processed it, and the next call is launched.

## How it is detected

The rule adds up the device's idle time between two runs, from the moment at which the launching
thread starts such a wait: reading the results, and launching the next run. Without the wait the
host could be ahead by as long as it waited: the title and the saving state the idle time or the
wait, whichever is shorter. Python that follows the wait belongs to STEP301, copies to STEP305. Time
after a virtual CPU device's last op in which its result is not ready yet (its threads free buffers)
belongs to no rule: the host would change nothing about it.

If the host calls a function for one device after the other, and waits in between, all of what the
others wait counts. If no launching thread is recorded, the rule counts idle time that starts when a
copy to the host ends, if the copy is not an op of a program: `float(loss)` leaves such a copy after
each step.

## Example

```python
for batch in batches:
    state, loss = step(state, batch)
    print(loss.item())  # waits for the step to end
```

## Fix

Read results one or more steps later, or only at every hundredth step: keep `loss` as an array, and
read that of the previous step after calling the next. Use `block_until_ready` only in benchmarks.

## Fix safety

The numbers are the same, one step later. Errors (NaN checks) also appear a step later.

## False alarms

Benchmarks wait on purpose. A loop that needs the result on the host for its next step (an
environment, a sampler) has to wait.

## References

- https://docs.jax.dev/en/latest/async_dispatch.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Range
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.host.causes import IdleCause
from counterpoint.diagnose.host.idle import WORTH, IdleTime, idle_of
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP304"
NAME: Final = "blocking-read"
SINCE: Final = "0.1"

_MOSTLY: Final = 0.9
_NOTICE_MS: Final = 1.0
"""A notice of the end, and the copy of a small result, take less."""
_LATE: Final = (
    ". Devices are done when most of the wait begins: it is not their work that lasts, but the"
    " end of it is reported late"
)
_SOONER: Final = (
    "; if you have to wait, leave a core to the runtime's threads, and try a newer driver: they"
    " report ends late"
)


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    idle = data.cached(idle_of)
    waiting = idle.hidden_by_not_waiting_ms
    if waiting <= WORTH * data.step_ms:
        return
    rows = idle.top(IdleCause.BLOCKED)
    inside, held = idle.ms(IdleCause.BLOCKED), idle.ms(*idle.hideable, held=True)
    late = idle.seen and inside > max(_MOSTLY * idle.blocked_ms, _NOTICE_MS)
    yield Finding(
        code=CODE,
        title=(
            f"devices are idle for {'up to ' * idle.seen}{ms_text(waiting)} per step "
            + (_why(idle, late=late) if idle.seen else "after a copy to the host")
        ),
        detail=(
            f"from the start of that wait on, devices are idle for {ms_text(held)} per step. The"
            f" launching thread waits {ms_text(idle.blocked_ms)}, {ms_text(inside)} of that while"
            " no device works, and calls the next step only afterwards; it could be ahead by as"
            " long as it waits, and its other work could overlap the step" + (_LATE if late else "")
            if idle.seen
            else "the next step starts"
            f" {ms_text(waiting)} after the end of a copy to the host that is no op of the program,"
            " as in a loop that reads a result (float(loss))"
        ),
        saves_ms=Range(0.0, waiting),
        basis=data.basis,
        evidence=(
            Evidence(
                what="gaps from the start of the wait",
                ms=held,
                gaps=idle.gaps(*idle.hideable, held=True),
            ),
            *(Evidence(what=what, ms=ms) for what, ms in rows),
        ),
        remedy=_remedy(idle, late=late),
        doubt=None
        if idle.seen
        else "the profile does not show the host: inferred from the copy alone",
    )


def _why(idle: IdleTime, *, late: bool) -> str:
    if idle.in_turn:
        return "because devices work in turn: the host waits for one before it calls the next"
    if late:
        return "because the end of their work is reported late"
    return "because the host waits for a result"


def _remedy(idle: IdleTime, *, late: bool) -> Remedy:
    if idle.in_turn:
        return Remedy(
            "call the function on all devices before you wait for any of them, or once for all with"
            " shard_map or a sharded jit"
        )
    return Remedy(
        "call the next step before you read the results of the last one: read `loss` a step later"
        " or every hundredth step, and use block_until_ready only in benchmarks"
        + (_SOONER if late else "")
    )
