"""The effect of a profile on a schedule: how each collective moved among the compute.

A collective hides behind the compute that is launched between its start and its done. Both
quantities use the costs of the profile, per execution: compute before the start, and compute
between. The hidden time is at most the smaller of the transfer and the compute between; collectives
that overlap the same compute share it, so the sum is an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from counterpoint.hlo.collectives import collective
from counterpoint.hlo.loops import loop_multiplier, mean_trips
from counterpoint.hlo.model.instruction import Computation, Instruction
from counterpoint.hlo.model.program import Program, launched, launches
from counterpoint.hlo.provenance import provenance, stable_key
from counterpoint.hlo.schedule import async_pairs, is_done, is_start
from counterpoint.pgle.lookups import lookup_name

_Identity: TypeAlias = Callable[[Program, Instruction], Hashable]


@dataclass(frozen=True, slots=True)
class SchedulePosition:
    """The position of a collective in its computation. Microseconds are of one execution."""

    computation: str
    index: int  # of the start among the instructions
    before_us: float  # compute launched before the start
    within_us: float  # compute launched between start and done
    within: int  # number of those instructions
    cost_us: float | None  # of the transfer, by the profile
    sync: bool

    @property
    def overlaps(self) -> bool:
        """True if anything runs concurrently."""
        return not self.sync and self.within > 0

    @property
    def hidden_us(self) -> float:
        """Upper bound of the hidden time; without a known cost, the compute that could hide it."""
        if self.sync:
            return 0.0
        return self.within_us if self.cost_us is None else min(self.within_us, self.cost_us)


@dataclass(frozen=True, slots=True)
class CollectiveMove:
    """One collective before and after."""

    name: str
    name_before: str
    kind: str
    bytes: int
    source: str | None
    executions: int | None  # per run of the program; None if a loop's count is unknown
    before: SchedulePosition
    after: SchedulePosition

    @property
    def start_shift_us(self) -> float:
        """Compute by which it starts later; negative if earlier."""
        return self.after.before_us - self.before.before_us

    @property
    def hidden_shift_us(self) -> float:
        """Increase of the hidden time of one transfer."""
        return self.after.hidden_us - self.before.hidden_us

    @property
    def moved(self) -> bool:
        """True if its cost changed, at the displayed precision."""
        return self.starts_elsewhere or _seen(self.before) != _seen(self.after)

    @property
    def starts_elsewhere(self) -> bool:
        """True if it starts earlier or later, at the displayed precision."""
        return displayed_us(self.start_shift_us) != 0

    @property
    def weight_us(self) -> float:
        """The effect of the change on a run of the program."""
        return abs(self.hidden_shift_us) * (self.executions or 1)


def displayed_us(us: float) -> float:
    """Round to the displayed precision, tenths of a microsecond."""
    return round(us, 1)


def _seen(place: SchedulePosition) -> tuple[float, bool, bool]:
    return displayed_us(place.within_us), place.overlaps, place.sync


@dataclass(frozen=True, slots=True)
class Movement:
    """All collectives in both schedules, the largest change first, and the rest."""

    moves: tuple[CollectiveMove, ...]
    gone: tuple[str, ...]  # collectives in the first schedule only
    new: tuple[str, ...]
    reordered: bool  # whether the schedules differ at all

    @property
    def moved(self) -> tuple[CollectiveMove, ...]:
        return tuple(move for move in self.moves if move.moved)

    @property
    def newly_overlapped(self) -> tuple[CollectiveMove, ...]:
        return tuple(
            move for move in self.moves if move.after.overlaps and not move.before.overlaps
        )

    @property
    def no_longer_overlapped(self) -> tuple[CollectiveMove, ...]:
        return tuple(
            move for move in self.moves if move.before.overlaps and not move.after.overlaps
        )

    @property
    def transfers_us(self) -> float:
        """Time of all transfers of a run, by the profile."""
        return sum((move.after.cost_us or 0.0) * (move.executions or 1) for move in self.moves)

    @property
    def hidden_before_us(self) -> float:
        """Upper bound of the time that was hidden."""
        return sum(move.before.hidden_us * (move.executions or 1) for move in self.moves)

    @property
    def hidden_after_us(self) -> float:
        return sum(move.after.hidden_us * (move.executions or 1) for move in self.moves)


def movement(
    before: Program,
    after: Program,
    costs: Mapping[str, float],
    *,
    costs_after: Mapping[str, float] | None = None,
    same: Mapping[str, str] | None = None,
) -> Movement:
    """Compare two schedules of one program; `costs` in us by instruction name.

    For two builds, names do not match: `costs_after` then has the costs by the names of the second,
    and `same` maps its collectives to those of the first.
    """
    old = dict(_places(before, costs))
    new = dict(_places(after, costs if costs_after is None else costs_after))
    pairs = _matched(before, after, old, new) if same is None else _paired_by_name(old, new, same)
    moves = (
        _move(after, after_start, before_start, old[before_start], new[after_start])
        for after_start, before_start in pairs.items()
    )
    kept = set(pairs.values())
    return Movement(
        moves=tuple(sorted(moves, key=lambda move: (-move.weight_us, -abs(move.start_shift_us)))),
        gone=tuple(start.name for start in old if start not in kept),
        new=tuple(start.name for start in new if start not in pairs),
        reordered=_order(before) != _order(after),
    )


def _order(program: Program) -> list[tuple[str, str, bool]]:
    return [
        (lookup_name(instruction), instruction.opcode, instruction.is_sync)
        for computation in launched(program)
        for instruction in computation.instructions
        if launches(instruction)
    ]


def _move(
    program: Program,
    instruction: Instruction,
    before: Instruction,
    old: SchedulePosition,
    new: SchedulePosition,
) -> CollectiveMove:
    talk = collective(program, instruction)
    assert talk is not None  # noqa: S101  only collectives have places
    return CollectiveMove(
        name=instruction.name,
        name_before=before.name,
        kind=talk.kind,
        bytes=talk.bytes,
        source=provenance(program, instruction).source,
        executions=loop_multiplier(program, instruction.computation),
        before=old,
        after=new,
    )


def _matched(
    before: Program, after: Program, old: Iterable[Instruction], new: Iterable[Instruction]
) -> dict[Instruction, Instruction]:
    """Map new to old: by the name the scheduler used, else by name, else by stable key."""
    pairs: dict[Instruction, Instruction] = {}
    identities: tuple[_Identity, ...] = (
        lambda _, start: lookup_name(start),
        lambda _, start: start.name,
        stable_key,
    )
    for identity in identities:
        taken = set(pairs.values())
        left = {identity(before, start): start for start in old if start not in taken}
        for start in new:
            if start not in pairs and (partner := left.pop(identity(after, start), None)):
                pairs[start] = partner
    return pairs


def _paired_by_name(
    old: Iterable[Instruction], new: Iterable[Instruction], same: Mapping[str, str]
) -> dict[Instruction, Instruction]:
    """Map new to old by the given names."""
    known = {start.name: start for start in old}
    return {start: known[same[start.name]] for start in new if same.get(start.name) in known}


def _places(
    program: Program, costs: Mapping[str, float]
) -> Iterator[tuple[Instruction, SchedulePosition]]:
    """Yield the start of every launched collective, and its place."""
    pairs = async_pairs(program)
    prices = _Prices(program, costs)
    for computation in launched(program):
        passed = list(accumulate(map(prices.compute, computation.instructions), initial=0.0))
        position = {instruction.name: instruction.index for instruction in computation.instructions}
        for instruction in computation.instructions:
            if is_done(instruction) or collective(program, instruction) is None:
                continue
            done = position.get(pairs.get(instruction.name, ""), instruction.index)
            between = computation.instructions[instruction.index + 1 : done]
            yield (
                instruction,
                SchedulePosition(
                    computation=computation.name,
                    index=instruction.index,
                    before_us=passed[instruction.index],
                    within_us=max(passed[done] - passed[instruction.index], 0.0),
                    within=_count(program, between),
                    cost_us=prices.own(instruction),
                    sync=instruction.is_sync or not is_start(instruction),
                ),
            )


def _count(program: Program, instructions: Sequence[Instruction]) -> int:
    return sum(_is_compute(program, instruction) for instruction in instructions)


def _is_compute(program: Program, instruction: Instruction) -> bool:
    if is_start(instruction) or is_done(instruction) or not launches(instruction):
        return False
    return collective(program, instruction) is None


class _Prices:
    """Costs by instruction; a loop costs the sum of its content times its trip count."""

    def __init__(self, program: Program, costs: Mapping[str, float]) -> None:
        self._program = program
        self._costs = costs
        self._inner = {start: inner for inner, start in program.wrapped.items()}
        self._bodies: dict[str, float] = {}

    def own(self, instruction: Instruction) -> float | None:
        """Return the profile's cost under the names that XLA looks up."""
        names = (lookup_name(instruction), self._inner.get(instruction.name, ""))
        return next((self._costs[name] for name in names if name in self._costs), None)

    def compute(self, instruction: Instruction) -> float:
        """Return microseconds of compute; 0 for communication or an instruction without a cost."""
        if not _is_compute(self._program, instruction):
            return 0.0
        if instruction.opcode in ("while", "call", "conditional"):
            bodies = sum(self._body(name) for name in instruction.calls)
            times = mean_trips(self._program, instruction) if instruction.opcode == "while" else 1
            return bodies * (times or 1)
        return self.own(instruction) or 0.0

    def _body(self, name: str) -> float:
        if name not in self._bodies:
            computation: Computation | None = self._program.computations.get(name)
            self._bodies[name] = 0.0  # guards against recursion, which should not occur
            instructions = computation.instructions if computation else ()
            self._bodies[name] = sum(self.compute(instruction) for instruction in instructions)
        return self._bodies[name]
