"""Devices wait for input: the next batch is not ready when the step ends.

## What it does

Measures the time of a step in which a device is idle and the launching thread is in the input
pipeline: `next` of an iterator, `get` of a queue that a thread or process fills, tf.data, grain, a
PyTorch DataLoader, or a function that the program names data loading.

## Why it costs time

A step can't start before its batch is ready. If batches arrive more slowly than steps run, the
device waits for the difference in each step, however fast the program is.

## How it is detected

The rule counts idle time between two runs if the later call came late and the innermost known event
on the launching thread belongs to the input pipeline. diagnose/host/causes.toml lists the names.

## Example

```text
device    | step 7 |                | step 8 |
python             | data loading   | PjitFunction(step)
```

## Fix

Prepare batches ahead in other threads or processes (`prefetch`, grain's `num_workers` and
`prefetch_buffer_size`, `num_parallel_calls=AUTOTUNE`), and put them on devices one step ahead. If
one worker's time per batch exceeds the step, add workers; if reading does, store data nearer.

## Fix safety

Reading ahead changes no batch; waiting batches take host memory.

## False alarms

A profile early in the run may show buffers that are still filling. JAX's own `next` calls within a
jitted call are not input and are not counted.

## References

- https://github.com/openxla/xprof/blob/master/docs/input_pipeline_analyzer.md
- https://google-grain.readthedocs.io/en/latest/
- https://www.tensorflow.org/guide/data_performance
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Range
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.host.causes import IdleCause
from counterpoint.diagnose.host.idle import WORTH, IdleTime, idle_of
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP302"
NAME: Final = "input-bound"
SINCE: Final = "0.1"


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    idle = data.cached(idle_of)
    waiting = idle.host_ms(IdleCause.INPUT)
    if waiting <= WORTH * data.step_ms:
        return
    longest, longest_ms = idle.top(IdleCause.INPUT)[0]
    yield Finding(
        code=CODE,
        title=f"devices wait {ms_text(waiting)} per step for input",
        detail=(
            f"{waiting / data.step_ms:.0%} of the step: the host fetches the next batch while"
            f" devices are idle, for {ms_text(longest_ms)} in {longest}" + _by_thread(idle)
        ),
        saves_ms=Range(0.0, waiting),
        basis=data.basis,
        evidence=(
            *idle.evidence(IdleCause.INPUT),
            *(
                Evidence(what=f"{what} on the thread that it waits for", ms=ms)
                for what, ms in idle.others_did(IdleCause.INPUT)
            ),
        ),
        remedy=Remedy(
            "the input pipeline is too slow: prepare batches ahead with more workers and a prefetch"
            " buffer, and put the next batch on the devices before the current step ends"
        ),
        doubt=None,
    )


def _by_thread(idle: IdleTime) -> str:
    """Say what the thread does that the loop waits for, if it waits for one."""
    did = idle.others_did(IdleCause.INPUT, count=1)
    return (
        f"; the thread that it waits for runs {did[0][0]} for {ms_text(did[0][1])}" if did else ""
    )
