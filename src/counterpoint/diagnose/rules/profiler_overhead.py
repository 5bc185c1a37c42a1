"""Steps are slower while they are profiled.

## What it does

Compares the steps of a recorded Run inside and outside of its profile. Without a Run, counts the
calls that the Python tracer recorded on the thread that launches.

## Why it costs time

Training without a profile is not affected. But the gaps in such a profile are partly its own: the
Python tracer slows Python down, and tracing kernels slows their launches, so fixing those gaps
gains nothing.

## How it is detected

A Run records when each step started and when its profile was open. The median of at least three
steps inside is compared with the Run's step time, that of the steps outside in which nothing was
compiled. A difference of more than 5% is reported, if at most a tenth of the steps outside take as
long: where steps differ anyway, the profiler is not to blame.

Without a Run, each call that the Python tracer recorded is taken to cost 0.15 to 0.6 us. Reported
if that is more than 10% of a step, and more than devices could hide: the time in which they are
idle.

## Example

```text
steps 2 to 19    101 ms
steps 20 to 24   137 ms    profiled
```

## Fix

Record without the Python tracer (`python_tracer_level=0`; `counterpoint run` samples Python
instead), with `host_tracer_level=1`, and fewer steps. Trust device times of kernels; trust the gaps
between them only as far as both recordings agree.

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

from counterpoint.core import Basis, Range, Unknown
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, range_text
from counterpoint.diagnose.host.profiler import ProfilerKind, profiler_of, traces_python
from counterpoint.diagnose.host.traced_calls import CALL_US, recorded_calls
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP606"
NAME: Final = "profiler-overhead"
SINCE: Final = "0.1"

_ENOUGH: Final = 3
_SLOWER: Final = 1.05
_RARELY: Final = 0.1

_MATTERS: Final = 0.1


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding, for the rank whose steps represent the Run."""
    if data.context.run is None:
        yield from _by_calls(data)
        return

    from counterpoint.runs.scores import profiled_steps, slowest_rank

    slowest = slowest_rank(data.context.run)
    if slowest is None or slowest[1].disturbed:
        return
    rank, outside = slowest
    inside, count = profiled_steps(rank)
    if count < _ENOUGH:
        return
    slow, usual = median(inside) * 1e3, outside.seconds * 1e3
    as_long = sum(seconds * 1e3 >= slow for seconds in outside.each_s)
    if slow <= _SLOWER * usual or as_long > max(1, _RARELY * len(outside.each_s)):
        return
    traced = traces_python(data.timeline)
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
        remedy=Remedy(f"{_less(data)} and fewer steps; gaps in this profile are upper bounds"),
    )


def _less(data: StepData) -> str:
    """Advise on recording less than was recorded."""
    profiler = profiler_of(data.timeline)
    if profiler is ProfilerKind.JAX and not traces_python(data.timeline):
        return "profile with host_tracer_level=1"
    return profiler.cost_less


def _by_calls(data: StepData) -> Iterator[Finding]:
    if not traces_python(data.timeline):
        return
    calls, idle_ms = data.cached(recorded_calls), data.breakdown.idle_ms
    cost = Range(min(idle_ms, calls * CALL_US.low / 1e3), min(idle_ms, calls * CALL_US.high / 1e3))
    if cost.high <= _MATTERS * data.step_ms:
        return
    yield Finding(
        code=CODE,
        title=f"recording Python makes steps longer, by about {range_text(cost)}",
        detail=f"the Python tracer recorded {calls:,.0f} calls per step on the launching thread,"
        f" at {CALL_US.low:g} to {CALL_US.high:g} us each, while devices wait for it: without a"
        " profile steps are shorter",
        saves_ms=Unknown("training without a profile is not affected"),
        basis=Basis.RULE_OF_THUMB,
        evidence=(),
        remedy=Remedy(
            f"{profiler_of(data.timeline).cost_less} to know how long steps are; gaps in this"
            " profile are upper bounds"
        ),
    )
