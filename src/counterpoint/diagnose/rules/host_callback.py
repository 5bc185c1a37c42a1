"""Devices wait for Python that the program calls.

## What it does

Adds up the time in which nothing runs on a device but a call of the host's Python: `pure_callback`,
`io_callback`, `debug.callback` and `debug.print`. Names the line that calls, how often it does in a
step, and the function that takes the time, if the profile records Python. Where Python is sampled,
the function is named without a time.

## Why it costs time

A callback is part of the compiled program: what depends on it waits until the operands are copied
to the host, the interpreter's lock is free, the function has returned, and its result is copied
back. A call that does nothing takes about 0.1 ms; within a loop, that is paid in each iteration.

## How it is detected

Ops whose custom call has a callback as its target, or that bear the names JAX gives to callbacks.
Time in which other ops run on the device is not counted. Other custom calls, of libraries or of
kernels, are no callbacks.

## Example

```python
@jax.jit
def train_step(params, batch):
    loss = loss_of(params, batch)
    jax.debug.print("loss {}", loss)  # a call of Python in each step
```

## Fix

Write the function with jax.numpy, or return its operands from the step and call it when the step
has ended, on a thread beside the next steps. Remove debug prints, or call them in few steps:
`jax.lax.cond` on the step's number, or a second compiled step that has them.

## Fix safety

A function called after the step can no longer change what the step computes.

## False alarms

The Python tracer of the profiler makes the called function slower. Callbacks of a debugging session
are meant.

## References

- https://docs.jax.dev/en/latest/external-callbacks.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Basis, Range
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.host.callbacks import HostCallbacks, host_callbacks
from counterpoint.diagnose.host.idle import WORTH
from counterpoint.diagnose.host.profiler import traces_python
from counterpoint.diagnose.host.threads import TRACED
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP308"
NAME: Final = "host-callback"
SINCE: Final = "0.1"

_NAMED: Final = 3
_MANY: Final = 2
"""Calls per step from which on their number is the trouble, not what one of them does."""


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    if not data.selection.occurrences or data.basis is Basis.PREDICTED:
        return
    callbacks = data.cached(host_callbacks)
    if callbacks is None or callbacks.waits_ms <= WORTH * data.step_ms:
        return
    yield Finding(
        code=CODE,
        title=f"devices wait {ms_text(callbacks.waits_ms)} per step for Python that the program"
        " calls",
        detail=_detail(data, callbacks),
        saves_ms=Range(0.0, callbacks.waits_ms),
        basis=data.basis,
        evidence=(
            *(
                Evidence(what=what, ms=ms, spans=data.longest(callbacks.rows) if at == 0 else ())
                for at, (what, ms) in enumerate(callbacks.ops[:_NAMED])
            ),
            *(Evidence(what=it.name, ms=it.ms) for it in callbacks.functions[:_NAMED]),
        ),
        remedy=_remedy(callbacks),
        doubt="the Python tracer was on: it makes each call slower"
        if callbacks.count >= _MANY and traces_python(data.timeline)
        else None,
    )


def _detail(data: StepData, callbacks: HostCallbacks) -> str:
    count = f"{callbacks.count:,.0f}" if callbacks.count >= 1 else f"{callbacks.count:.1g}"
    called = f"{count} {'call' if count == '1' else 'calls'} of Python in a step"
    text = f"{called}, most in {callbacks.ops[0][0]}"
    if callbacks.functions:
        first = callbacks.functions[0]
        if first.ms is None:
            return f"{text}; by samples of Python, that calls {first.name}"
        return f"{text}: {first.name} takes {ms_text(first.ms)}"
    if any(name.startswith(TRACED) for name in data.timeline.host_names):
        return f"{text}; it runs on a thread of the runtime, of which no Python is recorded"
    return (
        f"{text}; the profile does not show which function that calls: record the host's Python"
        " (python_tracer_level=1)"
    )


def _remedy(callbacks: HostCallbacks) -> Remedy:
    if callbacks.count >= _MANY:
        return Remedy(
            "take the callback (jax.debug.print, debug.callback) out of the loop, or call it once"
            " per step with all values: each call stops the device"
        )
    return Remedy(
        "write the function with jax.numpy, or return its operands from the step and call it when"
        " the step has ended, on a thread beside the next steps"
    )
