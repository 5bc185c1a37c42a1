"""Communication is not hidden, and the scheduler was given no measured costs.

## What it does

Says that the latency-hiding scheduler worked by guesses, in a step that waits for asynchronous
collectives.

## Why it costs time

The scheduler starts a collective as early, and waits for it as late, as it believes to be enough.
Without a profile it takes what a model says of each instruction, or that all cost alike. Where that
is wrong, the done comes before the transfer is through.

## How it is detected

On GPUs, in a program with HLO that the latency-hiding scheduler made, whose settings are known and
name neither `xla_gpu_pgle_profile_file_or_directory_path` nor `JAX_ENABLE_PGLE`, and whose compiler
log speaks of no profile. Of the step's exposed time only asynchronous collectives count that other
work could run beside (STEP101): it is the same time, said of its likely cause, and not to be added.
At most so much of it is saved as the simulator says could be hidden.

## Example

```text
--xla_gpu_enable_latency_hiding_scheduler=true    (and no profile)
```

## Fix

`counterpoint pgle auto -- python train.py`, or `counterpoint pgle make` of this very recording and
`xla_gpu_pgle_profile_file_or_directory_path=step.pbtxt`.

## Fix safety

Numbers do not change. Memory may: what is started early is held longer. A profile serves the
program that it was made of; after a change of the program it is stale (STEP603).

## False alarms

`jax_enable_pgle` that a program sets itself shows in no setting and no variable. And the model of
XLA may have been right: then a profile gains little, and the time needs another schedule.

## References

- https://docs.jax.dev/en/latest/gpu_performance_tips.html
- https://github.com/openxla/xla/blob/main/xla/service/gpu/gpu_hlo_schedule.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Unknown
from counterpoint.diagnose.exposure.causes import evidence, exposed_ms
from counterpoint.diagnose.exposure.given import on_gpu
from counterpoint.diagnose.exposure.synchrony import scheduler_of
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.machines import advise
from counterpoint.diagnose.pgle_use import ill_informed, use_of
from counterpoint.diagnose.step_data import StepData, place_of

CODE: Final = "STEP602"
NAME: Final = "pgle-missing"
SINCE: Final = "0.1"


def check(case: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    if not on_gpu(case) or case.program is None:
        return
    rows = ill_informed(case)
    use = use_of(case)
    if not rows or use is None or use.path is not None or use.auto:
        return
    scheduler = scheduler_of(case)
    if not scheduler.ran:
        return
    yield Finding(
        code=CODE,
        title=f"{exposed_ms(rows):,.2f} ms per step are exposed in a schedule made by guesses",
        detail=(
            f"the latency-hiding scheduler ran ({scheduler.why}) and no PGLE profile is given, so"
            f" it did not know what {place_of(rows[0])} takes, nor the work beside it"
        ),
        saves_ms=Unknown("this time is counted under STEP101"),
        basis=case.basis,
        evidence=evidence(case, rows),
        remedy=advise(
            case,
            "make a profile of this program and give it to the compiler: counterpoint pgle auto,"
            " or counterpoint pgle make of this recording",
        ),
        doubt="a program that sets jax_enable_pgle itself shows it in no setting",
    )
