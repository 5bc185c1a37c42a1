"""Overlap: the step if the main stream did not stop for some collectives but went on meanwhile.

    schedule     work.1  gather.........  work.2 (needs it)  work.3 (does not)
    overlapped   work.1  work.3           work.2
                         gather.........

They start when their operands are there. What needs them, directly or through others, keeps its
order and comes when they are done; all else keeps its order too, and goes ahead. What memory it
takes to hold more values at a time is not looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from counterpoint.hlo import Instruction, Program, is_done, launches, trip_count
from counterpoint.simulate.replay import Replay
from counterpoint.simulate.streams import Load, is_asynchronous, load

_DEEPEST = 64


def overlap_gain_s(program: Program, replay: Replay, names: Collection[str]) -> float:
    """Seconds that the step would be shorter."""
    costs = {
        name: seconds + replay.gap_s if seconds else 0.0
        for name, seconds in zip(replay.names, replay.each.tolist(), strict=True)
    }
    now = _Walk(program, costs, frozenset()).seconds(program.entry)
    then = _Walk(program, costs, frozenset(names)).seconds(program.entry)
    return max(0.0, now - then)


@dataclass(slots=True)
class _Walk:
    """Walks computations; each is walked once, for one execution of it."""

    program: Program
    costs: Mapping[str, float]
    asked: frozenset[str]
    _known: dict[str, float] = field(default_factory=dict[str, float])

    def seconds(self, computation: str, depth: int = 0) -> float:
        """One execution."""
        if computation not in self._known:
            self._known[computation] = 0.0  # what calls itself is damaged
            run = _Run(self, depth)
            self._known[computation] = run.of(self.program.computations[computation].instructions)
        return self._known[computation]

    def cost(self, it: Instruction, depth: int) -> float:
        """What an instruction takes, with all that it calls."""
        if it.opcode not in ("while", "conditional", "call") or depth > _DEEPEST:
            return self.costs.get(it.name, 0.0)
        inside = [self.seconds(name, depth + 1) for name in it.calls]
        if it.opcode == "while":
            return inside[0] * (trip_count(self.program, it) or 1) if inside else 0.0
        return max(inside, default=0.0) if it.opcode == "conditional" else sum(inside)


@dataclass(slots=True)
class _Run:
    """One execution of a computation: what is free when, and when each value is there."""

    walk: _Walk
    depth: int
    now: float = 0.0
    _free: dict[Load, float] = field(default_factory=dict[Load, float])
    _there: dict[str, float] = field(default_factory=dict[str, float])

    def of(self, instructions: Collection[Instruction]) -> float:
        """Seconds until everything is done."""
        ahead, behind = self._parted(instructions)
        while ahead or behind:
            turn = not ahead or (bool(behind) and self._may_go_first(behind[0], ahead[0]))
            self._do((behind if turn else ahead).popleft())
        return max([self.now, *self._free.values()])

    def _may_go_first(self, it: Instruction, other: Instruction) -> bool:
        """Whether it stands before the other and waits for nothing any more."""
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
        """What does not need the collectives asked about, and what does."""
        needing: set[str] = set()
        ahead: deque[Instruction] = deque()
        behind: deque[Instruction] = deque()
        for it in instructions:
            needs = bool(needing.intersection(it.operands))
            (behind if needs else ahead).append(it)
            if needs or it.name in self.walk.asked:
                needing.add(it.name)
        return ahead, behind
