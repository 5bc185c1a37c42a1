"""Other threads of the process work all the time, and slow the launching thread or the devices.

## What it does

Looks for threads beside the launching one that run Python or native code in more than half of the
time, and reports what they do and how long devices are idle while the launching thread is held up.

## Why it costs time

One thread at a time runs Python. A thread that computes in Python gives the interpreter's lock away
every 5 ms, so each time the launching thread needs it, it may wait that long. Threads in native
code (compression, NumPy) release the lock but need cores: where virtual CPU devices share the
cores with them, the step itself becomes slower.

## How it is detected

A thread is busy if calls recorded by the Python tracer cover more than half of the typical steps,
other than those that wait, sleep, read or write. If most of that time is in Python's frames or its
built-in functions, it holds the lock. Where `counterpoint run` samples stacks, a thread is busy if
it runs in more than half of the time, apart from what it waits for a core, and holds the lock if
most samples find it between two bytecodes; built-in functions that hold it for long do not count.
Idle time in which the launching thread is in a call of a program, in nothing that is recorded, or
by its samples does not run, then belongs to this rule. On virtual CPU devices n busy threads beside
c cores take up to n/(n + c) of the compute.

## Example

```text
device    | step 7 |                        | step 8 |
python    PjitFunction(step) .............. PjitFunction(step)
thread    $builtins sum | $builtins sum | $builtins sum | $builtins sum
```

## Fix

Move the work to another process (`multiprocessing`, a data loader with worker processes), do less
of it, or do it in native code that releases the lock. Limit the number of threads to cores that are
free (`OMP_NUM_THREADS`, `taskset`).

## Fix safety

Another process gets a copy of what it needs, so it does not see later changes.

## False alarms

Native code that releases the lock is harmless as long as cores are free: on accelerators the rule
does not count it. How much a busy thread costs is not in the profile: what is stated is the most.

## References

- https://docs.python.org/3/glossary.html#term-global-interpreter-lock
- https://docs.python.org/3/library/sys.html#sys.setswitchinterval
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from counterpoint.core import Basis, Range
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.finding import Evidence, Finding, ms_text
from counterpoint.diagnose.host.busy_threads import BusyThread
from counterpoint.diagnose.host.causes import IdleCause
from counterpoint.diagnose.host.hosts import host_activities
from counterpoint.diagnose.host.idle import WORTH, idle_of
from counterpoint.diagnose.host.threads import TRACED
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP311"
NAME: Final = "busy-threads"
SINCE: Final = "0.1"

_POOL: Final = "/tf_XLAEigen/"
"""Threads on which XLA runs the work of CPU devices, one for each core."""

_LISTED: Final = 3


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding. A predicted step has no host."""
    if data.basis is Basis.PREDICTED:
        return
    sides = data.cached(host_activities)
    busy = [one for side in sides.values() for one in side.busy]
    if not busy:
        return
    contended = data.cached(idle_of).host_ms(IdleCause.CONTENDED)
    taken = _taken_ms(data, busy)
    if contended + taken <= WORTH * data.step_ms:
        return
    work = sum(one.share for one in busy)
    what = _what(data, busy)
    gaps = Evidence(
        what="gaps in which the launching thread is held up",
        ms=contended,
        gaps=data.cached(idle_of).gaps(IdleCause.CONTENDED),
    )
    yield Finding(
        code=CODE,
        title=f"{counted_noun(len(busy), 'other thread')} {'is' if len(busy) == 1 else 'are'} busy"
        f" {work / len(busy):.0%} of the time, most with {what[0][0]}",
        detail=_detail(contended, taken),
        saves_ms=Range(0.0, contended + taken),
        basis=data.basis,
        evidence=(
            *((gaps,) if contended else ()),
            *(Evidence(what=f"{name} on another thread", ms=ms) for name, ms in what),
        ),
        remedy=advise(
            data,
            "move this work to another process (worker processes of a data loader,"
            " multiprocessing), or do less of it: a thread shares the interpreter's lock and the"
            " cores with the training loop",
        ),
        doubt="how much of it the threads cost is not recorded: stop them once and compare",
    )


def _detail(contended: float, taken: float) -> str:
    parts: list[str] = []
    if contended:
        parts.append(
            f"devices are idle for {ms_text(contended)} per step while the launching thread is held"
            " up by one that has the interpreter's lock (GIL)"
        )
    if taken:
        parts.append(
            "virtual CPU devices share the machine's cores with such threads, which may take up to"
            f" {ms_text(taken)} of a step's compute"
        )
    return "; ".join(parts)


def _taken_ms(data: StepData, busy: Sequence[BusyThread]) -> float:
    """Return how much compute of virtual CPU devices busy threads may take."""
    if any(device.kind != "cpu" for device in data.timeline.devices):
        return 0.0
    cores = sum(_POOL in line for line in data.timeline.lines)
    if not cores:
        return 0.0
    work = sum(one.share for one in busy)
    return data.breakdown.compute_ms * work / (work + cores)


def _what(data: StepData, busy: Sequence[BusyThread]) -> list[tuple[str, float]]:
    """Return what busy threads do, the longest first, with milliseconds of a typical step."""
    summed: dict[int, float] = {}
    for one in busy:
        ms = data.step_ms * one.share / one.works.total
        for event, ps in one.what.items():
            summed[event] = summed.get(event, 0.0) + ps * ms
    ranked = sorted(summed.items(), key=lambda item: -item[1])[:_LISTED]
    names = data.timeline.host_names
    return [(names[event].removeprefix(TRACED), ms) for event, ms in ranked]
