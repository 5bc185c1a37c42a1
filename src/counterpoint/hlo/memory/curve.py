"""The memory of a step over its schedule: how many bytes are held while each instruction runs.

A position is an instruction of the schedule, with what it calls before it: a loop's condition and
body, then the loop itself. The trace's order is that of these positions, but for a few events whose
place XLA moved afterwards: there the later position counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from counterpoint.hlo.memory.plan import BufferPlan, Event, EventKind
from counterpoint.hlo.memory.replay import Replay
from counterpoint.hlo.model.program import RUNNING, Program


@dataclass(frozen=True, slots=True)
class Moment:
    """A position of the schedule, and the event of the trace after which most is held there."""

    instruction: str
    event: int
    bytes: int


def flattened(program: Program) -> Iterator[str]:
    """Yield the names of all instructions that are launched, in order; loops once."""
    yield from _flattened(program, program.entry, set())


def _flattened(program: Program, computation: str, inside: set[str]) -> Iterator[str]:
    for it in program.computations[computation].instructions:
        if it.opcode in RUNNING:
            calls = it.calls[::-1] if it.opcode == "while" else it.calls  # the condition is first
            for called in calls:
                if called not in inside:
                    yield from _flattened(program, called, inside | {called})
        yield it.name


def moments(program: Program, plan: BufferPlan, events: tuple[Event, ...]) -> list[Moment]:
    """Return each position of the schedule with the bytes of temporaries that are held there."""
    places: dict[str, int] = {}
    order: list[str] = []
    for name in flattened(program):
        places.setdefault(name, len(order))
        order.append(name)
    curve = Replay(plan, events).curve()
    most: dict[int, tuple[int, int]] = {}  # bytes and event, by position
    after: dict[int, tuple[int, int]] = {}
    now = 0
    for number, event in enumerate(events):
        if event.kind is not EventKind.FREE:
            now = max(now, _place(program, plan, event, places, now))
        if now not in most or curve[number] > most[now][0]:
            most[now] = curve[number], number
        after[now] = curve[number], number
    found: list[Moment] = []
    held = (0, -1)
    for place, name in enumerate(order):
        at = most.get(place, held)
        found.append(Moment(name, at[1], at[0]))
        held = after.get(place, held)
    return found


def _place(
    program: Program, plan: BufferPlan, event: Event, places: Mapping[str, int], now: int
) -> int:
    it = program.instruction(plan.values[event.value].instruction)
    return now if it is None else places.get(it.name, now)
