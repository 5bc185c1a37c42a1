"""Communication is exposed, and the scheduler had no measured costs.

## What it does

Reports that the latency-hiding scheduler used estimated costs, in a step that waits for
asynchronous collectives.

## Why it costs time

The scheduler places the start and the done of a collective by the costs it assumes. Without a
profile, a model estimates each instruction, or all cost the same. If an estimate is wrong, the done
comes before the transfer has ended.

## How it is detected

On GPUs, for a program with HLO that the latency-hiding scheduler ordered, if the settings are known
and contain neither `xla_gpu_pgle_profile_file_or_directory_path` nor `JAX_ENABLE_PGLE`, and the
compiler log mentions no profile. Only asynchronous collectives that other work could overlap count.
This time is also reported by STEP101; this rule names its likely cause, so the two do not add up.

## Example

```text
--xla_gpu_enable_latency_hiding_scheduler=true    (and no profile)
```

## Fix

`counterpoint pgle auto -- python train.py`, or `counterpoint pgle make` from this recording and
`xla_gpu_pgle_profile_file_or_directory_path=step.pbtxt`.

## Fix safety

Numbers do not change. Memory may: collectives that start earlier hold their buffers longer. A
profile fits only the program it was made from; after a change of the program it is stale (STEP603).

## False alarms

A program that sets `jax_enable_pgle` itself shows it in no setting and no variable. XLA's model may
have been right: then a profile gains little, and another schedule is needed.

## References

- https://docs.jax.dev/en/latest/gpu_performance_tips.html
- https://github.com/openxla/xla/blob/main/xla/service/gpu/gpu_hlo_schedule.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Unknown
from counterpoint.diagnose.environment import advise, on_gpu
from counterpoint.diagnose.exposure.causes import evidence, exposed_ms
from counterpoint.diagnose.exposure.synchrony import scheduler_of
from counterpoint.diagnose.finding import Finding, ms_text
from counterpoint.diagnose.pgle_use import ill_informed, use_of
from counterpoint.diagnose.step_data import StepData, place_of

CODE: Final = "STEP602"
NAME: Final = "pgle-missing"
SINCE: Final = "0.1"


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    if not on_gpu(data) or data.program is None:
        return
    rows = ill_informed(data)
    use = use_of(data)
    if not rows or use is None or use.path is not None or use.auto:
        return
    scheduler = scheduler_of(data)
    if not scheduler.ran:
        return
    yield Finding(
        code=CODE,
        title=f"{ms_text(exposed_ms(rows))} per step are exposed; XLA scheduled without measured"
        " costs",
        detail=(
            f"the latency-hiding scheduler ran ({scheduler.why}) without a PGLE profile, so it only"
            f" estimated the time of {place_of(rows[0])} and of the work beside it"
        ),
        saves_ms=Unknown("this time is part of STEP101"),
        basis=data.basis,
        evidence=evidence(data, rows),
        remedy=advise(
            data,
            "give the compiler a profile of this program: counterpoint pgle auto, or counterpoint"
            " pgle make from this recording",
        ),
        doubt="a program that sets jax_enable_pgle itself does not show it in its settings",
    )
