"""What a profile moved: where each collective stands among the compute, before and after.

A collective hides behind the compute that is launched between its start and its done. Both are
counted here by the costs of the profile, per execution: compute that stands before the start, and
compute within. How much is hidden is at most the smaller of the transfer and of what stands within;
collectives that share the same compute share it in truth, too, so the sum is a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from counterpoint.hlo import Computation, Instruction, Program
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model import launched, launches
from counterpoint.hlo.origin import provenance, stable_key
from counterpoint.hlo.schedule import async_pairs, is_done, is_start, loop_multiplier, trip_count
from counterpoint.pgle.lookups.needed import asked_name

_Identity: TypeAlias = Callable[[Program, Instruction], Hashable]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a collective stands in its computation. Microseconds are of one execution."""

    computation: str
    index: int  # of the start among the instructions
    before_us: float  # compute launched before the start
    within_us: float  # compute launched between start and done
    within: int  # how many instructions that is
    cost_us: float | None  # of the transfer, by the profile
    sync: bool

    @property
    def overlaps(self) -> bool:
        """Whether anything runs beside it."""
        return not self.sync and self.within > 0

    @property
    def hidden_us(self) -> float:
        """At most so much of the transfer is hidden; without its cost what could hide it."""
        if self.sync:
            return 0.0
        return self.within_us if self.cost_us is None else min(self.within_us, self.cost_us)


@dataclass(frozen=True, slots=True)
class Move:
    """One collective before and after."""

    name: str
    name_before: str
    kind: str
    bytes: int
    source: str | None
    executions: int | None  # per run of the program; None where a loop's count is unknown
    before: Place
    after: Place

    @property
    def start_shift_us(self) -> float:
        """Compute by which it starts later; earlier where negative."""
        return self.after.before_us - self.before.before_us

    @property
    def hidden_shift_us(self) -> float:
        """By how much more of one transfer can be hidden."""
        return self.after.hidden_us - self.before.hidden_us

    @property
    def moved(self) -> bool:
        """Whether anything changed for it that costs or saves time, as far as it is shown."""
        return shown(self.start_shift_us) != 0 or _seen(self.before) != _seen(self.after)

    @property
    def weight_us(self) -> float:
        """What the change amounts to in a run of the program."""
        return abs(self.hidden_shift_us) * (self.executions or 1)


def shown(us: float) -> float:
    """As a reader gets to see it: in tenths of a microsecond."""
    return round(us, 1)


def _seen(place: Place) -> tuple[float, bool, bool]:
    return shown(place.within_us), place.overlaps, place.sync


@dataclass(frozen=True, slots=True)
class Movement:
    """All collectives that both schedules have, the weightiest change first, and the rest."""

    moves: tuple[Move, ...]
    gone: tuple[str, ...]  # collectives of the first schedule alone
    new: tuple[str, ...]
    reordered: bool  # whether the schedules differ at all

    @property
    def moved(self) -> tuple[Move, ...]:
        return tuple(it for it in self.moves if it.moved)

    @property
    def newly_overlapped(self) -> tuple[Move, ...]:
        return tuple(it for it in self.moves if it.after.overlaps and not it.before.overlaps)

    @property
    def no_longer_overlapped(self) -> tuple[Move, ...]:
        return tuple(it for it in self.moves if it.before.overlaps and not it.after.overlaps)

    @property
    def transfers_us(self) -> float:
        """What all transfers of a run take, by the profile."""
        return sum((it.after.cost_us or 0.0) * (it.executions or 1) for it in self.moves)

    @property
    def hidden_before_us(self) -> float:
        """At most so much of them was hidden."""
        return sum(it.before.hidden_us * (it.executions or 1) for it in self.moves)

    @property
    def hidden_after_us(self) -> float:
        return sum(it.after.hidden_us * (it.executions or 1) for it in self.moves)


def movement(
    before: Program,
    after: Program,
    costs: Mapping[str, float],
    *,
    costs_after: Mapping[str, float] | None = None,
    same: Mapping[str, str] | None = None,
) -> Movement:
    """What differs between two schedules of one program; `costs` in us by instruction name.

    Of two builds, names tell nothing: `costs_after` are then those by the names of the second,
    and `same` says which collective of it is which of the first.
    """
    old = dict(_places(before, costs))
    new = dict(_places(after, costs if costs_after is None else costs_after))
    pairs = _matched(before, after, old, new) if same is None else _told(old, new, same)
    moves = (_move(after, mine, theirs, old[theirs], new[mine]) for mine, theirs in pairs.items())
    kept = set(pairs.values())
    return Movement(
        moves=tuple(sorted(moves, key=lambda it: (-it.weight_us, -abs(it.start_shift_us)))),
        gone=tuple(it.name for it in old if it not in kept),
        new=tuple(it.name for it in new if it not in pairs),
        reordered=_order(before) != _order(after),
    )


def _order(program: Program) -> list[tuple[str, str, bool]]:
    return [
        (asked_name(it), it.opcode, it.is_sync)
        for computation in launched(program)
        for it in computation.instructions
        if launches(it)
    ]


def _move(program: Program, it: Instruction, before: Instruction, old: Place, new: Place) -> Move:
    talk = collective(program, it)
    assert talk is not None  # noqa: S101  places are of collectives only
    return Move(
        name=it.name,
        name_before=before.name,
        kind=talk.kind,
        bytes=talk.bytes,
        source=provenance(program, it).source,
        executions=loop_multiplier(program, it.computation),
        before=old,
        after=new,
    )


def _matched(
    before: Program, after: Program, old: Iterable[Instruction], new: Iterable[Instruction]
) -> dict[Instruction, Instruction]:
    """New to old: what the scheduler knew by one name, else what has one name or one key now."""
    pairs: dict[Instruction, Instruction] = {}
    identities: tuple[_Identity, ...] = (
        lambda _, it: asked_name(it),
        lambda _, it: it.name,
        stable_key,
    )
    for identity in identities:
        taken = set(pairs.values())
        left = {identity(before, it): it for it in old if it not in taken}
        for it in new:
            if it not in pairs and (found := left.pop(identity(after, it), None)):
                pairs[it] = found
    return pairs


def _told(
    old: Iterable[Instruction], new: Iterable[Instruction], same: Mapping[str, str]
) -> dict[Instruction, Instruction]:
    """New to old, as somebody else has found out."""
    known = {it.name: it for it in old}
    return {it: known[same[it.name]] for it in new if same.get(it.name) in known}


def _places(program: Program, costs: Mapping[str, float]) -> Iterator[tuple[Instruction, Place]]:
    """Every collective that is launched: its start, and where that stands."""
    pairs = async_pairs(program)
    prices = _Prices(program, costs)
    for computation in launched(program):
        passed = list(accumulate(map(prices.compute, computation.instructions), initial=0.0))
        position = {it.name: it.index for it in computation.instructions}
        for it in computation.instructions:
            if is_done(it) or collective(program, it) is None:
                continue
            done = position.get(pairs.get(it.name, ""), it.index)
            between = computation.instructions[it.index + 1 : done]
            yield (
                it,
                Place(
                    computation=computation.name,
                    index=it.index,
                    before_us=passed[it.index],
                    within_us=max(passed[done] - passed[it.index], 0.0),
                    within=_count(program, between),
                    cost_us=prices.own(it),
                    sync=it.is_sync or not is_start(it),
                ),
            )


def _count(program: Program, instructions: Sequence[Instruction]) -> int:
    return sum(_is_compute(program, it) for it in instructions)


def _is_compute(program: Program, instruction: Instruction) -> bool:
    if is_start(instruction) or is_done(instruction) or not launches(instruction):
        return False
    return collective(program, instruction) is None


class _Prices:
    """Costs by instruction; a loop costs what it contains, as often as it runs."""

    def __init__(self, program: Program, costs: Mapping[str, float]) -> None:
        self._program = program
        self._costs = costs
        self._inner = {start: inner for inner, start in program.wrapped.items()}
        self._bodies: dict[str, float] = {}

    def own(self, instruction: Instruction) -> float | None:
        """The profile's cost under the names by which XLA asks."""
        names = (asked_name(instruction), self._inner.get(instruction.name, ""))
        return next((self._costs[name] for name in names if name in self._costs), None)

    def compute(self, instruction: Instruction) -> float:
        """Microseconds of compute; 0 for what communicates or what the profile does not price."""
        if not _is_compute(self._program, instruction):
            return 0.0
        if instruction.opcode in ("while", "call", "conditional"):
            bodies = sum(self._body(name) for name in instruction.calls)
            times = trip_count(self._program, instruction) if instruction.opcode == "while" else 1
            return bodies * (times or 1)
        return self.own(instruction) or 0.0

    def _body(self, name: str) -> float:
        if name not in self._bodies:
            computation: Computation | None = self._program.computations.get(name)
            self._bodies[name] = 0.0  # nothing calls itself; should it, it ends here
            instructions = computation.instructions if computation else ()
            self._bodies[name] = sum(self.compute(it) for it in instructions)
        return self._bodies[name]
