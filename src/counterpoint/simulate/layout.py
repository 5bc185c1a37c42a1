"""Layout of a Program as an ExecutionPlan, along its schedule, loops, branches and calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from counterpoint.core import InputError
from counterpoint.hlo.category import made_for_tpus
from counterpoint.hlo.loops import is_noted, mean_trips, steering_loops, trip_count, trips_at
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launches
from counterpoint.hlo.schedule import is_done, is_start
from counterpoint.simulate.plan import (
    AsyncLaunch,
    Choice,
    ExecutionPlan,
    Join,
    Load,
    Loop,
    MainWork,
    PlanStep,
    PlanSteps,
    Streams,
    WorkBlock,
    is_asynchronous,
    load,
    starts_of,
)

_DEEPEST: Final = 64
"""Maximum nesting of computations; a program that nests deeper is damaged."""

_KEY: Final = "simulate.plan"


def lay_out(program: Program, *, communication_streams: int = 1) -> ExecutionPlan:
    """Return the ExecutionPlan of a scheduled program; it is cached."""
    key = (_KEY, communication_streams)
    if key not in program.answers:
        program.answers[key] = _lay_out(program, communication_streams)
    plan: ExecutionPlan = program.answers[key]
    return plan


def _lay_out(program: Program, communication_streams: int) -> ExecutionPlan:
    if not program.is_scheduled:
        raise InputError(
            f"{program.name} is not scheduled, so the order of its instructions is unknown",
            why="it was written before XLA's scheduler ran",
            next="use the module after optimizations, e.g. *.after_optimizations.hlo.pb of a dump",
        )
    layout = _Layout(program, Streams(communication_streams, on_tpu=made_for_tpus(program)))
    steps = layout.steps(program.entry, 0)
    if layout.steered:
        steps = _Unrolled(layout).steps(steps, {})
    if not layout.blocks:
        raise InputError(f"{program.name} launches no work: there is no step to predict")
    return ExecutionPlan(
        instructions=tuple(layout.instructions),
        weights=np.array(layout.weights, np.float64),
        blocks=tuple(layout.blocks),
        steps=steps,
        streams=tuple(layout.streams.names),
        loops=tuple(layout.loops),
        choices=tuple(layout.choices),
    )


@dataclass(slots=True)
class _Layout:
    """The state of the layout. Each computation is laid out once, even if called repeatedly."""

    program: Program
    streams: Streams
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    weights: list[float] = field(default_factory=list[float])
    blocks: list[WorkBlock] = field(default_factory=list[WorkBlock])
    loops: list[Loop] = field(default_factory=list[Loop])
    choices: list[Choice] = field(default_factory=list[Choice])
    # Loops whose trip counts depend on the iteration of outer ones, and those outer ones.
    steered: dict[str, Instruction] = field(default_factory=dict[str, Instruction])
    steering: set[str] = field(default_factory=set[str])
    _known: dict[str, PlanSteps] = field(default_factory=dict[str, PlanSteps])

    def steps(self, computation: str, depth: int) -> PlanSteps:
        """Return the steps of a computation on the main stream."""
        if computation not in self._known:
            if depth > _DEEPEST:
                raise InputError(f"{self.program.name}: computations are nested too deeply")
            steps: list[PlanStep] = []
            pending: list[Instruction] = []
            for instruction in self.program.computations[computation].instructions:
                if not launches(instruction):
                    continue
                if _is_plain(instruction):
                    if pending and load(self.program, pending[0]) is not load(
                        self.program, instruction
                    ):
                        self._flush(pending, steps)
                    pending.append(instruction)
                    continue
                self._flush(pending, steps)
                steps += self._special(instruction, depth)
            self._flush(pending, steps)
            self._known[computation] = tuple(steps)
        return self._known[computation]

    def _flush(self, pending: list[Instruction], into: list[PlanStep]) -> None:
        if pending:
            weighted = [(instruction, 1.0) for instruction in pending]
            into.append(MainWork(self._block(weighted, 0, load(self.program, pending[0]))))
            pending.clear()

    def _block(
        self, weighted: list[tuple[Instruction, float]], stream: int, kind: Load
    ) -> WorkBlock:
        first = len(self.instructions)
        self.instructions += [instruction for instruction, _ in weighted]
        self.weights += [weight for _, weight in weighted]
        block = WorkBlock(len(self.blocks), stream, kind, first, len(self.instructions))
        self.blocks.append(block)
        return block

    def _special(self, it: Instruction, depth: int) -> list[PlanStep]:
        if is_done(it):
            return self._join(it)
        if is_start(it):
            return self._launch(it)
        if it.opcode == "while":
            return self._loop(it, depth)
        if it.opcode == "conditional":
            branches = tuple(self.steps(name, depth + 1) for name in it.calls)
            self.choices.append(Choice(it.name, branches))
            return [self.choices[-1]] if branches else []
        return [step for name in it.calls for step in self.steps(name, depth + 1)]

    def _loop(self, it: Instruction, depth: int) -> list[PlanStep]:
        steering = steering_loops(self.program, it)
        if steering:
            self.steered[it.name] = it
            self.steering.update(loop.name for loop in steering)
        trips = trip_count(self.program, it)
        body = self.steps(it.calls[0], depth + 1) if it.calls else ()
        condition: PlanSteps = ()
        if it.calls[1:] and not is_noted(it):
            condition = self.steps(it.calls[1], depth + 1)
        loop = Loop(it.name, body, trips, condition)
        if trips is None and not steering:
            self.loops.append(loop)
        return [loop]

    def _launch(self, start: Instruction) -> list[PlanStep]:
        kind = load(self.program, start)
        inside = [(start, 1.0)]
        if start.calls and start.opcode in ("async-start", "call-start") and kind is Load.COMPUTE:
            inside = list(self._inside(start.calls[0], 1.0, 0))
        if not inside:
            return []
        stream = self.streams.of(start, kind)
        return [AsyncLaunch(self._block(inside, stream, kind), _place(start))]

    def _inside(
        self, computation: str, weight: float, depth: int
    ) -> Iterator[tuple[Instruction, float]]:
        """Yield what an asynchronous computation runs, in the order of its stream."""
        if depth > _DEEPEST:
            raise InputError(f"{self.program.name}: computations are nested too deeply")
        for instruction in self.program.computations[computation].instructions:
            if not launches(instruction) or is_done(instruction):
                continue
            if instruction.opcode in ("while", "call", "conditional"):
                trips = mean_trips(self.program, instruction) or 1
                for name in instruction.calls[:1]:
                    yield from self._inside(name, weight * trips, depth + 1)
            else:
                yield instruction, weight

    def _join(self, done: Instruction) -> list[PlanStep]:
        if done.opcode.endswith("-update"):
            return []
        starts = filter(is_asynchronous, starts_of(self.program, done))
        places = tuple(_place(start) for start in starts)
        return [Join(places)] if places else []


_MOST_TURNS: Final = 1 << 10


@dataclass(slots=True)
class _Unrolled:
    """Writes out the iterations of loops on which the trip counts of inner loops depend.

    Blocks are shared, and equal iterations in a row stay one loop, so the plan stays small.
    """

    layout: _Layout
    _uncounted: set[str] = field(default_factory=set[str])

    def steps(self, steps: PlanSteps, turns: dict[str, int]) -> PlanSteps:
        """Return the steps when the outer loops have turned that often."""
        return tuple(new for step in steps for new in self._step(step, turns))

    def _step(self, step: PlanStep, turns: dict[str, int]) -> list[PlanStep]:
        if isinstance(step, Choice):
            branches = tuple(self.steps(branch, turns) for branch in step.branches)
            return [replace(step, branches=branches)]
        if not isinstance(step, Loop):
            return [step]
        trips = self._trips(step, turns)
        if step.name not in self.layout.steering or trips is None or trips > _MOST_TURNS:
            return [replace(step, trips=trips, body=self.steps(step.body, turns))]
        loops: list[Loop] = []
        for turn in range(trips):
            body = self.steps(step.body, {**turns, step.name: turn})
            if loops and loops[-1].body == body:
                loops[-1] = replace(loops[-1], trips=(loops[-1].trips or 0) + 1)
            else:
                loops.append(replace(step, trips=1, body=body))
        return [*loops]

    def _trips(self, loop: Loop, turns: dict[str, int]) -> int | None:
        steered = self.layout.steered.get(loop.name)
        if steered is None:
            return loop.trips
        program = self.layout.program
        trips = trips_at(program, steered, turns)
        if trips is None:  # too many iterations were to be written out
            mean = mean_trips(program, steered)
            trips = None if mean is None else round(mean)
        if trips is None and loop.name not in self._uncounted:
            self._uncounted.add(loop.name)
            self.layout.loops.append(replace(loop, trips=None))
        return trips


def _is_plain(it: Instruction) -> bool:
    """Return whether the instruction is work of the main stream."""
    if is_done(it) or is_asynchronous(it):
        return False
    return it.opcode not in ("while", "conditional", "call")


def _place(start: Instruction) -> str:
    """Return the qualified name: names repeat in profiles that expand computations."""
    return f"{start.computation}/{start.name}"
