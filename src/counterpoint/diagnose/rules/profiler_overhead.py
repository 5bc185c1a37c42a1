"""Steps are slower while they are profiled.

## What it does

Compares the steps of a recorded Run inside and outside of its profile.

## Why it costs time

Training without a profile is not affected. But the gaps in such a profile are partly its own: the
Python tracer slows Python down, and tracing kernels slows their launches, so fixing those gaps
gains nothing.

## How it is detected

A Run records when each step started and when its profile was open. The median of at least three
steps inside is compared with the Run's step time, that of the steps outside in which nothing was
compiled. A difference of more than 5% is reported.

## Example

```text
steps 2 to 19    101 ms
steps 20 to 24   137 ms    profiled
```

## Fix

Record without the Python tracer (`python_tracer_level=0`), with `host_tracer_level=1`, and fewer
steps. Trust device times of kernels; trust the gaps between them only as far as both recordings
agree.

## Fix safety

The program does not change.

## False alarms

Steps differ: an evaluation, a checkpoint or longer sequences may be in the window.

## References

- https://docs.jax.dev/en/latest/profiling.html
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

from counterpoint.core import Unknown
from counterpoint.diagnose.finding import Evidence, Finding, Remedy
from counterpoint.diagnose.host.profiler import profiler_of
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP606"
NAME: Final = "profiler-overhead"
SINCE: Final = "0.1"

_ENOUGH: Final = 3
_SLOWER: Final = 1.05


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding, for the rank whose steps represent the Run."""
    if data.context.run is None:
        return

    from counterpoint.runs.scores import profiled_steps, slowest_rank

    found = slowest_rank(data.context.run)
    if found is None or found[1].disturbed:
        return
    rank, outside = found
    inside, count = profiled_steps(rank)
    if count < _ENOUGH:
        return
    slow, usual = median(inside) * 1e3, outside.seconds * 1e3
    if slow <= _SLOWER * usual:
        return
    traced = any(name.startswith("$") for name in data.timeline.host_names)
    yield Finding(
        code=CODE,
        title=f"steps take {slow - usual:,.1f} ms longer while they are profiled",
        detail=(
            f"median of {count} steps inside the profile: {slow:,.1f} ms, of {outside.steps}"
            f" steps outside: {usual:,.1f} ms" + ("; the Python tracer was on" if traced else "")
        ),
        saves_ms=Unknown("training without a profile is not affected"),
        basis=data.basis,
        evidence=(
            Evidence(what="steps inside the profile", ms=slow),
            Evidence(what="steps outside it", ms=usual),
        ),
        remedy=Remedy(
            f"{profiler_of(data.timeline).cost_less} and fewer steps; gaps in this profile are"
            " upper bounds"
        ),
    )
