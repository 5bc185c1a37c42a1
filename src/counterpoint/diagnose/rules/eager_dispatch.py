"""Code outside of jax.jit launches many little programs, one by one.

## What it does

Counts the programs of one operation or a few that a step runs, and adds up the time in which
devices are idle because the host still launches the next one of them.

## Why it costs time

Each operation on arrays outside of `jax.jit` is a program of its own. A call costs the host 5 to 50
us, however little the device has to do, and no operation is fused with the next. An optimizer that
is written out for a hundred arrays launches a thousand programs per step.

## How it is detected

A program is little if a run of it has up to five ops. The rule counts if a step has ten runs of
them, or hardly any others. Idle time before such a run counts if the call of it returned late: all
of a gap up to 1 ms, and of longer ones the time in which the host launches. What the Python tracer
costs is subtracted from the saving, by the number of calls that it recorded (STEP606).

## Example

```python
loss, grads = jax.jit(jax.value_and_grad(loss_fn))(params, batch)
params = jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)  # 2 programs per array
```

## Fix

Put the code into the jitted step, or `jax.jit` it as one function: an optimizer's update, a
schedule, a metric. If a jitted step is itself that little, run several of them in one call, with
`jax.lax.scan` or `jax.lax.fori_loop`. `jax.disable_jit()` is for debugging.

## Fix safety

XLA may fuse and reorder operations, so the last bits of numbers can change. A jitted function is
compiled again for each new shape.

## False alarms

A debugger, or shapes that change in each step, can be a reason not to jit.

## References

- https://docs.jax.dev/en/latest/jit-compilation.html
- https://docs.jax.dev/en/latest/async_dispatch.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.host.causes import IdleCause
from counterpoint.diagnose.host.eager import LittlePrograms, little_programs
from counterpoint.diagnose.host.idle import WORTH, IdleTime, idle_of
from counterpoint.diagnose.host.profiler import traces_python
from counterpoint.diagnose.host.traced_calls import CALL_US, recorded_calls
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP310"
NAME: Final = "eager-dispatch"
SINCE: Final = "0.1"

_LISTED: Final = 3
_MOST: Final = 0.9
"""Share of a step's little runs from which on one program is repeated, and not a part of many."""


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding. A predicted step has no host."""
    if data.basis is Basis.PREDICTED:
        return
    idle = data.cached(idle_of)
    waiting = idle.host_ms(IdleCause.EAGER)
    if waiting <= WORTH * data.step_ms:
        return
    little = data.cached(little_programs)
    tracer = _tracer_ms(data, waiting)
    of_all = sum(idle.host_ms(cause) for cause in IdleCause)
    yield Finding(
        code=CODE,
        title=f"devices wait {ms_text(waiting)} per step while the host launches"
        f" {counted_noun(max(1, round(little.per_step)), 'little program')} one by one",
        detail=(
            f"{waiting / data.step_ms:.0%} of the step: each step runs {_programs(data, little)};"
            f" {waiting / of_all:.0%} of the idle time is the price of their launches"
            + (f", about {ms_text(tracer)} of it that of the Python tracer" if tracer else "")
        ),
        saves_ms=Range(0.0, waiting - tracer),
        basis=data.basis,
        evidence=_evidence(data, little, idle, waiting),
        remedy=_remedy(data, little),
        doubt="the Python tracer was on: it slows Python down and is a part of the gaps"
        if tracer
        else None,
    )


def _programs(data: StepData, little: LittlePrograms) -> str:
    by_name: dict[str, float] = {}
    for program, runs in little.runs.items():
        name = data.timeline.programs[program].name
        by_name[name] = by_name.get(name, 0.0) + runs
    ranked = sorted(by_name.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{runs:,.0f} x {name}" for name, runs in ranked[:_LISTED])
    more = sum(runs for _, runs in ranked[_LISTED:])
    others = f" and {more:,.0f} others" if more >= 1 else ""
    count = counted_noun(max(1, round(little.per_step)), "program")
    return f"{count} of up to five ops, {listed}{others}"


def _evidence(
    data: StepData, little: LittlePrograms, idle: IdleTime, waiting: float
) -> tuple[Evidence, ...]:
    """Return the gaps, and the source lines that launch most."""
    gaps = Evidence(what="gaps before them", ms=waiting, gaps=idle.gaps(IdleCause.EAGER))
    lines = (
        data.ops.filter(pl.col("program").is_in([*little.runs]) & pl.col("source").is_not_null())
        .group_by("source")
        .agg(pl.col("count").sum(), pl.col("self_ms").sum())
        .sort("count", "source", descending=[True, False])
        .head(_LISTED)
    )
    return (
        gaps,
        *(
            Evidence(what=f"{count:,.0f} ops per step from {source}, which compute for", ms=ms)
            for source, count, ms in lines.rows()
        ),
    )


def _remedy(data: StepData, little: LittlePrograms) -> Remedy:
    runs: Sequence[float] = [*little.runs.values()]
    if runs and runs[0] >= _MOST * little.per_step:
        text = (
            "let one call do more: several steps in one program with jax.lax.scan or"
            " jax.lax.fori_loop, or one jax.jit around the code that calls it"
        )
    else:
        text = (
            "put this code into one jax.jit: the update, the schedule or the whole step"
            " (and leave jax.disable_jit() to debugging)"
        )
    return advise(data, text)


def _tracer_ms(data: StepData, waiting: float) -> float:
    """Return about what the Python tracer adds to the gaps of a typical step."""
    if not traces_python(data.timeline):
        return 0.0
    each_ms = (CALL_US.low + CALL_US.high) / 2 / 1e3
    return min(1.0, data.cached(recorded_calls) * each_ms / data.step_ms) * waiting
