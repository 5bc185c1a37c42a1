"""Changes of the schedule between two compiles of a step: moved, merged and split collectives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from counterpoint.core import Unknown
from counterpoint.core.field import Field, Form
from counterpoint.diagnose.compare.compared_op import STEP, ComparedOp
from counterpoint.diagnose.compare.matching import MatchStage, OpMatch
from counterpoint.hlo.model.program import Program
from counterpoint.pgle.applying.movement import CollectiveMove, movement

_US_PER_MS = 1e3


@dataclass(frozen=True, slots=True)
class RegroupedCollectives:
    """Collectives of A merged into one in B, or the reverse; `bytes` per step."""

    a: Annotated[tuple[str, ...], Field("names in A")]
    b: Annotated[tuple[str, ...], Field("names in B")]
    kind: Annotated[str, Field("the kind of collective", "kind")]
    bytes: Annotated[int, Field("moved in a step", "bytes per step", Form.BYTES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChanges:
    """Changes of the schedule; moves are of collectives that both sides have, most costly first."""

    moves: tuple[CollectiveMove, ...] | Unknown
    regrouped: tuple[RegroupedCollectives, ...]
    compared: int  # number of collectives that both have

    @property
    def now_async(self) -> tuple[CollectiveMove, ...]:
        """Collectives that were sync before."""
        moves = () if isinstance(self.moves, Unknown) else self.moves
        return tuple(move for move in moves if move.before.sync and not move.after.sync)

    @property
    def now_sync(self) -> tuple[CollectiveMove, ...]:
        """Collectives that were async before."""
        moves = () if isinstance(self.moves, Unknown) else self.moves
        return tuple(move for move in moves if move.after.sync and not move.before.sync)


def schedule_changes(
    a: Program | None, b: Program | None, matches: Sequence[OpMatch]
) -> ScheduleChanges:
    """Compare the schedules of the step's programs.

    Moves are measured in the compute that was passed, at A's prices on both sides: a kernel that
    became slower moves nothing, and equal schedules show no moves, however noisy the profiles.
    """
    pairs = {
        match.b[0].op: match.a[0].op
        for match in matches
        if len(match.a) == len(match.b) == 1 and match.a[0].is_collective
    }
    return ScheduleChanges(
        moves=_moves(a, b, pairs, matches),
        regrouped=tuple(_regrouped(matches)),
        compared=len(pairs),
    )


def _moves(
    a: Program | None, b: Program | None, pairs: dict[str, str], matches: Iterable[OpMatch]
) -> tuple[CollectiveMove, ...] | Unknown:
    for name, program in (("A", a), ("B", b)):
        if program is None:
            return Unknown(f"{name} has no HLO of its step, so its schedule is unknown")
        if not program.is_scheduled:
            return Unknown(f"the HLO of {name} is not scheduled")
    if a is None or b is None:  # reported above
        return Unknown("no HLO")
    of_a, of_b = _prices(matches)
    changes = movement(a, b, of_a, costs_after=of_b, same=pairs)
    return tuple(move for move in changes.moves if move.moved)


def _prices(matches: Iterable[OpMatch]) -> tuple[dict[str, float], dict[str, float]]:
    """Return microseconds per execution, by the names of each side, at A's prices where known."""
    of_a: dict[str, float] = {}
    of_b: dict[str, float] = {}
    for match in matches:
        a_items = [item for item in match.a if item.program == STEP]
        b_items = [item for item in match.b if item.program == STEP]
        of_a |= {item.op: _us(item) for item in a_items}
        if len(a_items) == len(b_items) == 1:
            of_b[b_items[0].op] = _us(a_items[0])
            continue
        whole = math.fsum(item.self_ms for item in b_items)
        # Work that A lacks has no price: it was added, and no collective moved past it.
        scale = math.fsum(item.self_ms for item in a_items) / whole if a_items and whole else 0.0
        of_b |= {item.op: _us(item) * scale for item in b_items}
    return of_a, of_b


def _us(op: ComparedOp) -> float:
    return op.self_ms * _US_PER_MS / op.count if op.count else 0.0


def _regrouped(matches: Iterable[OpMatch]) -> Iterable[RegroupedCollectives]:
    for match in matches:
        if match.how is MatchStage.MERGED:
            moved = sum(round((item.bytes or 0) * item.count) for item in match.a)
            kind = match.a[0].kind or "collective"
            names = tuple(item.op for item in match.a), tuple(item.op for item in match.b)
            yield RegroupedCollectives(*names, kind, moved)
