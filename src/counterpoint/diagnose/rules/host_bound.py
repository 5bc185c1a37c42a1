"""Devices wait for the host to launch their next work.

## What it does

Measures the time of a step in which a device is idle because its next program, or the next kernel
of a running program, was launched late, and reports what the launching thread did instead.

## Why it costs time

JAX launches ahead: while a device runs one step, the host calls the next. If the host needs longer
for its part of a step than the device for its own, the device is idle for the difference.

## How it is detected

Idle time between two runs counts, unless the call of the later one had returned before the gap
began, or the gap is no longer than a launch takes (20 us). Idle time within a run counts while the
event that enqueues its kernels is in progress, if it exceeds a tenth of that event; otherwise the
host was ahead and waited for room in the queue (STEP306). Each moment belongs to the innermost
event of the launching thread; an annotation around calls, such as a step marker, does not show what
the thread does. A profile may not tell whether the next run had been launched: such gaps count
here, and the finding says so. Time after waiting for a result belongs to STEP304, as far as that
wait could have hidden it; input belongs to STEP302, compiling to STEP303, copying to STEP305.

## Example

```text
device    | step 7 |                    | step 8 |
python             | $train.py:88 log_metrics | PjitFunction(step)
```

## Fix

Python: move logging, metrics and bookkeeping out of the loop or to a thread. If the host has waited
for a result before, it can also call the next step first, so that the device works meanwhile.
Garbage collection: `gc.freeze()` after set-up, `gc.disable()` around the loop. Dispatch: call fewer
and larger jitted functions; where a step is one call already, pass fewer arrays to it, or call
several steps at once (`jax.lax.scan`). Launching: command buffers launch many kernels at once. If
nothing is recorded, the host may work, sleep or wait for a result (`block_until_ready`); the Python
tracer (`counterpoint run --profile-python`, or `python_tracer_level=1`), or annotations under
Nsight Systems, show which. Waiting for another thread (a lock, an event, `join`, the result of a
future): speed up that thread; where it prepares batches, that is the input pipeline.

## Fix safety

Moving work out of the loop changes no numbers. Neither do command buffers, but a profile then shows
fewer single ops.

## False alarms

The Python tracer slows Python down, often by a multiple: compare step times with and without a
profile (STEP606) before you rewrite a loop. The first launch of a kernel loads its code: where
launches of 5 ms or more are most of the loss, the remedy is a warm-up. If the profile does not show
the launching thread, the rule blames no host. If another host's devices compute longer, that part
of a device's idle time is not the host's either.

## References

- https://docs.jax.dev/en/latest/async_dispatch.html
- https://docs.jax.dev/en/latest/profiling.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.host.causes import IdleCause
from counterpoint.diagnose.host.compiles import compiled_in_steps
from counterpoint.diagnose.host.idle import WORTH, IdleTime, idle_of
from counterpoint.diagnose.host.profiler import ANNOTATE, profiler_of, traces_python
from counterpoint.diagnose.host.threads import TRACED
from counterpoint.diagnose.other_frameworks import is_foreign
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP301"
NAME: Final = "host-bound"
SINCE: Final = "0.1"

_CAUSES: Final = (
    IdleCause.PYTHON,
    IdleCause.THREAD,
    IdleCause.DISPATCH,
    IdleCause.LAUNCHING,
    IdleCause.RUNTIME,
    IdleCause.UNMATCHED,
    IdleCause.UNKNOWN,
)
_SAID: Final = {
    IdleCause.PYTHON: "runs Python for {ms}",
    IdleCause.THREAD: "waits {ms} for a lock or an event of another thread",
    IdleCause.DISPATCH: "calls jitted functions for {ms}",
    IdleCause.LAUNCHING: "launches kernels of a running program for {ms}",
    IdleCause.RUNTIME: "is blocked by the runtime for {ms}",
}
_SAID_OF_OTHERS: Final = {IdleCause.DISPATCH: "launches kernels for {ms}"}
_REMEDIES: Final = {
    IdleCause.PYTHON: "move this Python out of the training loop or to a thread",
    IdleCause.THREAD: "make the thread that it waits for faster, or let it work ahead: if it"
    " prepares batches, the input pipeline is too slow and needs more workers and a longer queue",
    IdleCause.LAUNCHING: "use command buffers, which launch many kernels at once, or larger ones",
    IdleCause.RUNTIME: "find out what the runtime waits for: device memory, or too many launches"
    " in flight",
}
_CALLS: Final = "call fewer and larger jitted functions, best one for the whole step"
_ONE_CALL: Final = (
    "a step is one call already: make that shorter with fewer arguments (each array of a pytree"
    " takes time), or call several steps at once (jax.lax.scan over batches)"
)
_COMPILES: Final = (
    "these steps compile (STEP303), and much of this is the tracing for that: it ends with the"
    " compiling"
)
_CALL_FIRST: Final = (
    "; or call the next step before you wait for this one's results: what follows then overlaps it"
)
_EAGER: Final = (
    "move out of the loop what of this Python launches nothing; where it launches kernels one by"
    " one, compile it, or capture it in a CUDA or HIP graph, so that one call launches many"
)
_COLLECTOR: Final = re.compile(r"\$gc collect|_xla_gc_callback")
_COLLECT_LESS: Final = (
    "this is Python's garbage collector: call gc.freeze() once everything is set up and"
    " gc.disable() around the loop, collect only every few hundred steps, and keep fewer objects"
    " alive (NumPy arrays instead of lists)"
)
_LAUNCH: Final = re.compile(r"(?:cuda|cu|hip)\w*Launch\w*Kernel")
_LOADS_MS: Final = 5.0
"""A launch takes microseconds, and longer if the queue is full, but then devices are not idle."""
_MOSTLY: Final = 0.5
_WARM_UP: Final = (
    "run what you profile once before, as a training loop does: only the first launch of a kernel"
    " loads its code"
)
_WORTH_NAMING: Final = 0.05
_TOP: Final = 20
_SEVERAL: Final = 1.5
"""Runs of programs per step from which on fewer are possible."""
_BUFFERS: Final = "xla_gpu_enable_command_buffer"


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding. A predicted step has no host."""
    if data.basis is Basis.PREDICTED:
        return
    idle = data.cached(idle_of)
    by_cause = {cause: idle.host_ms(cause) for cause in _CAUSES}
    total = sum(by_cause.values())
    if total <= WORTH * data.step_ms:
        return
    relevant = [cause for cause in _CAUSES if by_cause[cause] > _WORTH_NAMING * total]
    ranked = sorted(relevant, key=lambda cause: -by_cause[cause])
    unmatched = by_cause[IdleCause.UNMATCHED]
    loading, loads = _loading(data, idle)
    first = loading > _MOSTLY * total
    known = total - by_cause[IdleCause.UNKNOWN] - unmatched
    did = idle.others_did(IdleCause.THREAD)
    gaps = "gaps before work launched late" if idle.seen else "gaps between runs"
    visible = (idle.seen or known > 0) and 2 * unmatched < total
    meanwhile = (
        _meanwhile(data, {cause: by_cause[cause] for cause in ranked}, did)
        if visible
        else "no call and no launch is recorded"
    )
    if unmatched:
        meanwhile = (
            f"before {ms_text(unmatched)} of it the profile does not show whether the host had"
            " launched the next run"
        ) + (f"; {meanwhile}" if visible else "")
    if first:
        meanwhile += (
            f"; {ms_text(loading)} of it in {counted_noun(loads, 'call')} of {_LOADS_MS:.0f} ms or"
            " more to launch a kernel, as the first call for a kernel is, which loads its code"
        )
    yield Finding(
        code=CODE,
        title=_title(total, shown=visible),
        detail=f"{total / data.step_ms:.0%} of the step; {meanwhile}",
        saves_ms=Range(0.0, total),
        basis=data.basis,
        evidence=(
            Evidence(what=gaps, ms=total, gaps=idle.gaps(*_CAUSES)),
            *(Evidence(what=what, ms=ms) for what, ms in idle.top(*_CAUSES)),
            *(Evidence(what=f"{what} on the thread that it waits for", ms=ms) for what, ms in did),
        ),
        remedy=advise(data, _WARM_UP) if first else _remedy(data, idle, ranked[0]),
        doubt=_doubt(data, idle, known),
    )


def _loading(data: StepData, idle: IdleTime) -> tuple[float, int]:
    """Return the idle time in launches that are too long for one, and their number in a step."""
    named = [ms for what, ms in idle.top(*_CAUSES, count=_TOP) if _LAUNCH.match(what)]
    timeline, windows = data.timeline, data.selection.windows
    launches = [n for n, name in enumerate(timeline.host_names) if _LAUNCH.match(name)]
    if not named or not launches:
        return 0.0, 0
    long = timeline.host_events.filter(
        pl.col("name").is_in(launches)
        & (pl.col("dur_ps") >= _LOADS_MS * PS_PER_MS)
        & pl.col("start_ps").is_between(windows["start_ps"].min(), windows["end_ps"].max())
    )
    spent = float(long["dur_ps"].sum()) * data.selection.scale
    return min(sum(named), spent), len(long)


def _meanwhile(
    data: StepData, by_cause: dict[IdleCause, float], did: list[tuple[str, float]]
) -> str:
    """Say what the host does meanwhile, most of it first, and for how long that is not known."""
    said = _SAID | (_SAID_OF_OTHERS if is_foreign(data) else {})
    activities = [said[it].format(ms=ms_text(ms)) for it, ms in by_cause.items() if it in said]
    if IdleCause.THREAD in by_cause:
        at = [it for it in by_cause if it in said].index(IdleCause.THREAD)
        activities[at] += f", which runs {did[0][0]}" if did else ""
    unknown = by_cause.get(IdleCause.UNKNOWN)
    if not activities:
        return "the profile does not show what the host does meanwhile"
    first, last = ", ".join(activities[:-1]), activities[-1]
    text = f"meanwhile the host {f'{first} and {last}' if first else last}"
    if unknown is not None:
        text += f"; for {ms_text(unknown)} the profile does not show what it does"
    return text


def _calls_per_step(data: StepData) -> float:
    """Return how many runs a typical step calls, mean over devices."""
    windows = data.selection.windows.select("step", "device")
    runs = data.timeline.runs.join(windows, on=["step", "device"], how="semi")
    return len(runs) / max(len(windows), 1)


def _of_calls(data: StepData) -> str:
    """Return what helps where calling jitted functions takes long."""
    if _compile(data):
        return _COMPILES
    return _ONE_CALL if _calls_per_step(data) < _SEVERAL else _CALLS


def _compile(data: StepData) -> bool:
    """Return whether most typical steps compile."""
    seen = compiled_in_steps(data)
    typical = {*data.selection.windows["step"].to_list()}
    return seen is not None and 2 * len(seen.steps & typical) > len(typical)


def _traced(data: StepData) -> bool:
    return any(name.startswith(TRACED) for name in data.timeline.host_names)


def _title(total: float, *, shown: bool) -> str:
    if shown:
        return f"devices wait {ms_text(total)} per step for the host to launch work"
    return f"devices are idle for {ms_text(total)} per step; the profile does not show why"


def _remedy(data: StepData, idle: IdleTime, cause: IdleCause) -> Remedy:
    switched_off = (data.context.flags or {}).get(_BUFFERS) == ""
    if cause is IdleCause.LAUNCHING and switched_off:
        return Remedy(f"command buffers are disabled (--{_BUFFERS}=): enable them again")
    if cause is IdleCause.UNMATCHED:
        return Remedy(
            "profile more steps, and mark them with jax.profiler.StepTraceAnnotation: then calls"
            " can be matched with runs"
        )
    if cause is IdleCause.UNKNOWN:
        more = ANNOTATE if _traced(data) else profiler_of(data.timeline).see_the_host
        return Remedy(f"{more}: the host may work, sleep, or wait for a result")
    if cause is IdleCause.PYTHON and _COLLECTOR.search(idle.top(cause, count=1)[0][0]):
        return advise(data, _COLLECT_LESS)
    text = _of_calls(data) if cause is IdleCause.DISPATCH else _REMEDIES[cause]
    if cause is IdleCause.PYTHON and is_foreign(data):
        text = _EAGER
    elif cause is IdleCause.PYTHON and 2 * idle.ms(cause, held=True) > idle.ms(cause):
        text += _CALL_FIRST
    return advise(data, text)


def _doubt(data: StepData, idle: IdleTime, known: float) -> str | None:
    if not idle.seen:
        return "the profile does not show the launching thread"
    if not known:
        return "the host's activity in the gaps is not recorded"
    if traces_python(data.timeline) and idle.host_ms(IdleCause.PYTHON) > idle.host_ms(
        IdleCause.THREAD
    ):
        return "the Python tracer was on: it slows Python down and may cause the gaps"
    return None
