"""Timelines with a host: events of its threads beside the spans of its devices, in microseconds.

timeline = made(
    [Run(0, 90), Run(100, 90)],                 # device 0 runs jit_step twice, 10 between
    [Event("PjitFunction(step)", 0, 5), Event("$train.py:9 log", 92, 8)],
)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from counterpoint.core.basis import Range
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import Context, StepData
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.recording import HOST_EVENTS, Recording
from recordings import Span, recording

US = 1_000
PS = 1_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a program, all of it one kernel, or those of `busy`, from its start."""

    start: int
    length: int
    device: int = 0
    program: str = "jit_step"
    busy: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """What a thread of the host did."""

    name: str
    start: int
    length: int
    thread: str = "python"


def recorded(
    runs: Sequence[Run],
    events: Sequence[Event] = (),
    steps: Sequence[tuple[int, int]] = (),
    host: str = "host0",
) -> Recording:
    """Of one host; `steps` are markers for all devices: start and length."""
    spans = [
        Span(
            f"fusion.{n}", (run.start + at) * US, dur * US, run.device, run.device, number, program
        )
        for number, run in enumerate(runs)
        for program in (run.program,)
        for n, (at, dur) in enumerate(run.busy or ((0, run.length),))
    ]
    devices = sorted({run.device for run in runs})
    made = recording(
        spans,
        host=host,
        executions=[(r.device, r.program, r.start * US, r.length * US) for r in runs],
        markers=[
            (device, number, start * US, length * US)
            for device in devices
            for number, (start, length) in enumerate(steps)
        ],
    )
    threads = list(dict.fromkeys(event.thread for event in events))
    names = list(dict.fromkeys(event.name for event in events))
    rows = [
        (
            len(made.lines) + threads.index(e.thread),
            names.index(e.name),
            e.start * PS,
            e.length * PS,
        )
        for e in events
    ]
    return replace(
        made,
        lines=(*made.lines, *threads),
        host_events=pl.DataFrame(rows, schema=HOST_EVENTS, orient="row"),
        host_names=tuple(names),
    )


def made(
    runs: Sequence[Run], events: Sequence[Event] = (), steps: Sequence[tuple[int, int]] = ()
) -> Timeline:
    """The Timeline of one host."""
    return assemble([recorded(runs, events, steps)], ["made.xplane.pb"])


def case(timeline: Timeline, context: Context | None = None) -> StepData:
    """What rules look at."""
    return StepData(selection=select(timeline), context=context or Context())


def most(finding: Finding) -> float:
    """The upper end of what a finding saves, which begins at zero."""
    assert isinstance(finding.saves_ms, Range)
    assert finding.saves_ms.low == 0
    return finding.saves_ms.high


def loop(
    between: Sequence[Event], *, count: int = 5, busy: int = 90, gap: int = 60, call: int = 10
) -> Timeline:
    """A training loop: each step `busy` on the device, then a `gap`, at whose end comes the call.

    `between` is what the host does in each gap, from its start.
    """
    step = busy + gap
    events = [
        Event("PjitFunction(step)", number * step - call, call) for number in range(count)
    ] + [
        replace(event, start=number * step + busy + event.start)
        for number in range(count)
        for event in between
    ]
    return made(
        [Run(number * step, busy) for number in range(count)],
        events,
        [(number * step, step) for number in range(count)],
    )
