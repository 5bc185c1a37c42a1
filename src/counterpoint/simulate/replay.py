"""Replays of a schedule with measured times, and the gain from overlapping more of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from counterpoint.hlo.loops import mean_trips
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launches
from counterpoint.hlo.schedule import is_done
from counterpoint.simulate.engine import Engine
from counterpoint.simulate.layout import lay_out
from counterpoint.simulate.plan import (
    ExecutionPlan,
    Load,
    Seconds,
    is_asynchronous,
    load,
)


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """A plan with measured times; `each` are seconds of one execution per instruction.

    It runs a program's own schedule with measured times. The gain if some work took no time is the
    difference of two replays: work behind a collective that is gone moves up, but only as far as
    the next thing it has to wait for. Contention is contained in the measured times and stays
    there.
    """

    plan: ExecutionPlan
    names: tuple[str, ...]
    each: Seconds
    gap_s: float

    def step_s(self, free: Collection[str] = ()) -> float:
        """Return the step time if `free` instructions took no time and needed no launch."""
        left = np.array([name not in free for name in self.names])
        costs: Seconds = self.each * left
        return _engine(self.plan, costs + self.gap_s * (costs > 0)).run()


def replay(program: Program, seconds: Mapping[str, float], gap_s: float = 0.0) -> Replay:
    """Build a Replay from the time of instructions in a whole step, by name; others take none.

    An async instruction is identified by its start. If one runs several times, each execution takes
    an even share. `gap_s` is the time the device needs between two pieces of work on a stream.
    """
    plan = lay_out(program)
    names = tuple(instruction.name for instruction in plan.instructions)
    engine = _engine(plan, np.zeros(len(names)))
    engine.run()
    sizes = [block.last - block.first for block in plan.blocks]
    times = np.repeat(np.array(engine.sums.counts, np.float64), sizes) * plan.weights
    total = np.array([seconds.get(name, 0.0) for name in names], np.float64)
    each = np.divide(total, times, out=np.zeros_like(total), where=times > 0)
    return Replay(plan, names, each, gap_s)


def _engine(plan: ExecutionPlan, costs: Seconds) -> Engine:
    return Engine(plan, plan.block_sums(costs).tolist(), [0.0] * len(plan.blocks))


_DEEPEST = 64


def overlap_gain_s(program: Program, replay: Replay, names: Collection[str]) -> float:
    """Return by how many seconds the step would be shorter if `names` were overlapped.

    The gain if the main stream did not stop for these collectives but went on meanwhile:

        schedule     work.1  gather.........  work.2 (needs it)  work.3 (does not)
        overlapped   work.1  work.3           work.2
                             gather.........

    They start when their operands are ready. Work that needs them, directly or through others,
    keeps its order and runs when they are done; all other work keeps its order and goes ahead. The
    memory that it takes to keep more values alive is ignored.
    """
    costs = {
        name: seconds + replay.gap_s if seconds else 0.0
        for name, seconds in zip(replay.names, replay.each.tolist(), strict=True)
    }
    before = _OverlapWalk(program, costs, frozenset()).seconds(program.entry)
    after = _OverlapWalk(program, costs, frozenset(names)).seconds(program.entry)
    return max(0.0, before - after)


@dataclass(slots=True)
class _OverlapWalk:
    """Walks computations; each is walked once, for one execution of it."""

    program: Program
    costs: Mapping[str, float]
    asked: frozenset[str]
    _known: dict[str, float] = field(default_factory=dict[str, float])

    def seconds(self, computation: str, depth: int = 0) -> float:
        """Return the seconds of one execution."""
        if computation not in self._known:
            self._known[computation] = 0.0  # a computation that calls itself is damaged
            run = _Run(self, depth)
            self._known[computation] = run.of(self.program.computations[computation].instructions)
        return self._known[computation]

    def cost(self, it: Instruction, depth: int) -> float:
        """Return the cost of an instruction with all that it calls."""
        if it.opcode not in ("while", "conditional", "call") or depth > _DEEPEST:
            return self.costs.get(it.name, 0.0)
        inside = [self.seconds(name, depth + 1) for name in it.calls]
        if it.opcode == "while":
            return inside[0] * (mean_trips(self.program, it) or 1) if inside else 0.0
        return max(inside, default=0.0) if it.opcode == "conditional" else sum(inside)


@dataclass(slots=True)
class _Run:
    """One execution of a computation: when each resource is free and each value available."""

    walk: _OverlapWalk
    depth: int
    now: float = 0.0
    _free: dict[Load, float] = field(default_factory=dict[Load, float])
    _there: dict[str, float] = field(default_factory=dict[str, float])

    def of(self, instructions: Collection[Instruction]) -> float:
        """Return the seconds until everything is done."""
        ahead, behind = self._parted(instructions)
        while ahead or behind:
            take_behind = not ahead or (bool(behind) and self._may_go_first(behind[0], ahead[0]))
            self._do((behind if take_behind else ahead).popleft())
        return max([self.now, *self._free.values()])

    def _may_go_first(self, it: Instruction, other: Instruction) -> bool:
        """Return whether it precedes the other and all its operands are ready."""
        if it.index > other.index or any(name not in self._there for name in it.operands):
            return False
        return self._ready(it) <= self.now

    def _ready(self, it: Instruction) -> float:
        return max((self._there[name] for name in it.operands), default=0.0)

    def _do(self, it: Instruction) -> None:
        ready, cost = self._ready(it), self.walk.cost(it, self.depth)
        if not launches(it):
            self._there[it.name] = ready
        elif is_asynchronous(it) or it.name in self.walk.asked:
            stream = load(self.walk.program, it)
            called = ready if it.name in self.walk.asked else max(self.now, ready)
            began = max(called, self._free.get(stream, 0.0))
            self._there[it.name] = self._free[stream] = began + cost
        else:
            self.now = max(self.now, ready) + (0.0 if is_done(it) else cost)
            self._there[it.name] = self.now

    def _parted(
        self, instructions: Collection[Instruction]
    ) -> tuple[deque[Instruction], deque[Instruction]]:
        """Separate instructions that do not need the selected collectives from those that do."""
        needing: set[str] = set()
        ahead: deque[Instruction] = deque()
        behind: deque[Instruction] = deque()
        for instruction in instructions:
            needs = bool(needing.intersection(instruction.operands))
            (behind if needs else ahead).append(instruction)
            if needs or instruction.name in self.walk.asked:
                needing.add(instruction.name)
        return ahead, behind
