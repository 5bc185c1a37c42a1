"""What the schedules differ in: where collectives start and what stands within them.

Moves are counted in compute that was passed, at A's prices on both sides: so a kernel that became
slower moves nothing, and equal schedules differ in nothing, however noisy the profiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from counterpoint.core.basis import Unknown
from counterpoint.diagnose.compare.item import STEP, Item
from counterpoint.diagnose.compare.matching import How, Match
from counterpoint.hlo import Program
from counterpoint.pgle.movement import Move, movement

_US_PER_MS = 1e3


@dataclass(frozen=True, slots=True)
class Regrouped:
    """Collectives of A that became one in B, or the other way; `bytes` moved in a step."""

    a: tuple[str, ...]
    b: tuple[str, ...]
    kind: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Moves are of collectives that both sides have, the weightiest first."""

    moves: tuple[Move, ...] | Unknown
    regrouped: tuple[Regrouped, ...]
    compared: int  # collectives that both have

    @property
    def now_async(self) -> tuple[Move, ...]:
        """Those that were sync."""
        moves = () if isinstance(self.moves, Unknown) else self.moves
        return tuple(it for it in moves if it.before.sync and not it.after.sync)

    @property
    def now_sync(self) -> tuple[Move, ...]:
        """Those that were async."""
        moves = () if isinstance(self.moves, Unknown) else self.moves
        return tuple(it for it in moves if it.after.sync and not it.before.sync)


def schedule_changes(a: Program | None, b: Program | None, matches: Sequence[Match]) -> Schedule:
    """Compare the schedules of the step's programs."""
    pairs = {
        match.b[0].op: match.a[0].op
        for match in matches
        if len(match.a) == len(match.b) == 1 and match.a[0].is_collective
    }
    return Schedule(
        moves=_moves(a, b, pairs, matches),
        regrouped=tuple(_regrouped(matches)),
        compared=len(pairs),
    )


def _moves(
    a: Program | None, b: Program | None, pairs: dict[str, str], matches: Iterable[Match]
) -> tuple[Move, ...] | Unknown:
    for name, program in (("A", a), ("B", b)):
        if program is None:
            return Unknown(f"{name} carries no HLO of its step, so its schedule is not known")
        if not program.is_scheduled:
            return Unknown(f"the HLO of {name} is not scheduled")
    if a is None or b is None:  # said above
        return Unknown("no HLO")
    of_a, of_b = _prices(matches)
    found = movement(a, b, of_a, costs_after=of_b, same=pairs)
    return tuple(it for it in found.moves if it.moved)


def _prices(matches: Iterable[Match]) -> tuple[dict[str, float], dict[str, float]]:
    """Microseconds of one execution, by the names of either side: A's where A has it."""
    of_a: dict[str, float] = {}
    of_b: dict[str, float] = {}
    for match in matches:
        mine = [it for it in match.a if it.program == STEP]
        theirs = [it for it in match.b if it.program == STEP]
        of_a |= {it.op: _us(it) for it in mine}
        if len(mine) == len(theirs) == 1:
            of_b[theirs[0].op] = _us(mine[0])
            continue
        whole = math.fsum(it.self_ms for it in theirs)
        # What A does not have, it has no price for: it was added, and no collective moved past it.
        scale = math.fsum(it.self_ms for it in mine) / whole if mine and whole else 0.0
        of_b |= {it.op: _us(it) * scale for it in theirs}
    return of_a, of_b


def _us(it: Item) -> float:
    return it.self_ms * _US_PER_MS / it.count if it.count else 0.0


def _regrouped(matches: Iterable[Match]) -> Iterable[Regrouped]:
    for match in matches:
        if match.how is How.MERGED:
            moved = sum(round((it.bytes or 0) * it.count) for it in match.a)
            kind = match.a[0].kind or "collective"
            names = tuple(it.op for it in match.a), tuple(it.op for it in match.b)
            yield Regrouped(*names, kind, moved)
