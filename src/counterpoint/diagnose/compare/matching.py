"""Matching of the ops of A with those of B, by identity, then by work, then by content.

Names mean nothing across two compiles: XLA numbers its fusions in the order it makes them. So ops
are paired in stages, the most reliable first, and each stage sees what earlier ones left:

    looped    instructions of one scope, primitive and result with equal total count, but unequal
              number
    same      equal key and content; those with equal names first, then in order of the schedule
    work      equal scope, primitive, content and result, whatever instruction performs it;
              without HLO equal scope, source line, operations and bytes, as the profile has them
    name      equal names, if one side's HLO is not known
    shapes    equal scope, primitive and content, other shapes; where a merged GEMM and slices of
              its result took the place of several GEMMs, they are left to `fused`
    merged    collectives of one kind and group, several against one with the same total bytes
    fused     ops with mostly the same content: groups of several on either side
    place     equal scope and primitive, or equal source line, and little else
    renamed   equal opcode, phase, shapes and content except scopes, in order of the schedule;
              collectives of one kind, group and bytes

A collective of other bytes is a different one, unless it is at the same scope.

Everything left over is on one side only. Nothing is dropped.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from counterpoint.diagnose.compare.compared_op import ComparedOp
from counterpoint.diagnose.compare.op_groups import fused_groups, looped_groups, merged_groups
from counterpoint.hlo.category import Category

_NUMBERING: Final = re.compile(r"([._](\d+|clone|remat\d*)){1,16}$")

Identity = Callable[[ComparedOp], Hashable]
"""None: the item has no identity in this stage and is left to the next."""


class MatchStage(StrEnum):
    """The stage that matched the ops."""

    LOOPED = "looped"
    SAME = "same"
    NAME = "name"
    WORK = "work"
    SHAPES = "shapes"
    MERGED = "merged"
    FUSED = "fused"
    PLACE = "place"
    RENAMED = "renamed"
    ALONE = "alone"


@dataclass(frozen=True, slots=True)
class OpMatch:
    """Ops of A that correspond to those of B; one side is empty if nothing was found."""

    a: tuple[ComparedOp, ...]
    b: tuple[ComparedOp, ...]
    how: MatchStage


def match_items(a: Sequence[ComparedOp], b: Sequence[ComparedOp]) -> tuple[OpMatch, ...]:
    """Return every item of both sides, in exactly one match."""
    left = _Unmatched(list(a), list(b))
    matches = left.group(MatchStage.LOOPED, looped_groups(left.a, left.b))
    for how, identity in (
        *_FIRST,
        (MatchStage.NAME, _name_unless(_programs_with_hlo(a) & _programs_with_hlo(b))),
    ):
        matches += left.pair(how, identity)
    matches += left.group(MatchStage.MERGED, merged_groups(left.a, left.b))
    for how, identity in _SHAPES:
        matches += left.pair(how, identity)
    matches += left.group(MatchStage.FUSED, fused_groups(left.a, left.b))
    for how, identity in _LAST:
        matches += left.pair(how, identity)
    for how, identity in _RENAMED:
        matches += left.pair(how, identity, renamed=True)
    matches += [OpMatch((item,), (), MatchStage.ALONE) for item in left.a]
    matches += [OpMatch((), (item,), MatchStage.ALONE) for item in left.b]
    return tuple(matches)


class _Unmatched:
    """Items that no stage has matched yet."""

    def __init__(self, a: list[ComparedOp], b: list[ComparedOp]) -> None:
        self.a, self.b = a, b

    def pair(self, how: MatchStage, identity: Identity, *, renamed: bool = False) -> list[OpMatch]:
        """Pair items of A and B with equal identity, in order; the rest stays.

        Scopes must agree where both are known, unless scopes were renamed: then both sides must
        have equally many, since otherwise it is a guess which is which.
        """
        waiting: defaultdict[Hashable, list[ComparedOp]] = defaultdict(list)
        for item in reversed(self.b):
            if (known := identity(item)) is not None:
                waiting[known].append(item)
        matches = [
            OpMatch((item,), (waiting[known].pop(),), how)
            for item in self.a
            if (known := identity(item)) is not None and waiting.get(known)
        ]
        if renamed:
            counts = [Counter(map(identity, side)) for side in (self.a, self.b)]
            matches = [match for match in matches if _equally(identity(match.a[0]), *counts)]
            matches = [match for match in matches if not match.a[0].content & match.b[0].content]
        elif how is MatchStage.SHAPES:
            gemms = ([it for it in side if _is_gemm(it)] for side in (self.a, self.b))
            counts = [Counter(map(identity, side)) for side in gemms]
            matches = [match for match in matches if _equally(identity(match.a[0]), *counts)]
        else:
            matches = [match for match in matches if _agree(match.a[0].scope, match.b[0].scope)]
        if how is MatchStage.NAME:  # a collective of 1 GiB must not match one of 16 MiB
            matches = [match for match in matches if _agree(match.a[0].bytes, match.b[0].bytes)]
        self._take(matches)
        return matches

    def group(
        self,
        how: MatchStage,
        groups: Iterable[tuple[tuple[ComparedOp, ...], tuple[ComparedOp, ...]]],
    ) -> list[OpMatch]:
        """Match several of A with several of B."""
        matches = [OpMatch(a, b, how) for a, b in groups]
        self._take(matches)
        return matches

    def _take(self, matches: Iterable[OpMatch]) -> None:
        gone = {id(item) for match in matches for item in (*match.a, *match.b)}
        self.a = [item for item in self.a if id(item) not in gone]
        self.b = [item for item in self.b if id(item) not in gone]


def _equally(known: Hashable, a: Counter[Hashable], b: Counter[Hashable]) -> bool:
    return a[known] == b[known]


def _is_gemm(op: ComparedOp) -> bool:
    return op.category == Category.MATMUL


def _exact(op: ComparedOp) -> Hashable:
    """Return the identity of an item; for a collective it does not depend on sync or async."""
    if op.is_collective:
        if op.bytes is None:
            return None
        what = (op.kind, op.bytes, op.group_size, op.scope, op.primitive, op.phase)
        return (op.program, what)
    return None if op.key is None else (op.program, op.key, op.content)


def _exact_by_name(op: ComparedOp) -> Hashable:
    return None if (known := _exact(op)) is None else (known, op.op)


def _programs_with_hlo(items: Sequence[ComparedOp]) -> set[str]:
    """Return the programs whose HLO is known."""
    return {item.program for item in items if item.key is not None}


def _name_unless(with_hlo: set[str]) -> Identity:
    """Match names only without better evidence: for programs without HLO, or ops outside of it."""

    def named(op: ComparedOp) -> Hashable:
        if op.program in with_hlo and op.key is not None:
            return None
        return (op.program, op.op)

    return named


def _agree(a: Hashable, b: Hashable) -> bool:
    return a is None or b is None or a == b


def _work(op: ComparedOp) -> Hashable:
    if op.is_collective or not op.content:
        return None
    where = (op.program, op.scope, op.primitive, op.phase)
    return (*where, op.result, op.content, _is_gemm(op))  # a slice of a merged one is none


def _figures(op: ComparedOp) -> Hashable:
    """Return the figures of an op without HLO."""
    return None if op.key is not None or op.figures is None else (op.program, op.figures)


def _figures_by_name(op: ComparedOp) -> Hashable:
    return None if (known := _figures(op)) is None else (known, op.op)


def _shapes(op: ComparedOp) -> Hashable:
    if op.is_collective or not op.content:
        return None
    return (op.program, op.scope, op.primitive, op.phase, op.content, _is_gemm(op))


def _kin(op: ComparedOp) -> Hashable:
    """Return the place of a collective, whose size may differ; None if no place is known."""
    if not op.is_collective or not (op.scope or op.source):
        return None
    return (op.program, op.kind, op.group_size, op.scope, op.phase)


def _place(op: ComparedOp) -> Hashable:
    if not (op.scope or op.source):
        return None
    return (op.program, op.category, op.scope, op.primitive or _stem(op.op), op.phase)


def _made(op: ComparedOp) -> Hashable:
    """Return the identity of what XLA itself made: a copy of a shape, a kernel of a name."""
    if op.scope or op.source or op.is_collective:
        return None
    return (op.program, op.category, op.result, _stem(op.op))


def _renamed(op: ComparedOp) -> Hashable:
    """Return what remains without anything a user may rename: scopes and names of functions."""
    if op.is_collective:
        return None if op.bytes is None else (op.program, op.kind, op.group_size, op.bytes)
    if op.unscoped is None:
        return None
    return (op.program, op.category, op.phase, op.result, op.unscoped)


def _renamed_at_one_place(op: ComparedOp) -> Hashable:
    if (known := _renamed(op)) is None or not op.source:
        return None
    return (known, op.source)


def _stem(op: str) -> str:
    return _NUMBERING.sub("", op)


_FIRST: Final[tuple[tuple[MatchStage, Identity], ...]] = (
    (MatchStage.SAME, _exact_by_name),
    (MatchStage.SAME, _exact),
    (MatchStage.WORK, _work),
    (MatchStage.WORK, _figures_by_name),
    (MatchStage.WORK, _figures),
)
_SHAPES: Final[tuple[tuple[MatchStage, Identity], ...]] = ((MatchStage.SHAPES, _shapes),)
_LAST: Final[tuple[tuple[MatchStage, Identity], ...]] = (
    (MatchStage.PLACE, _kin),
    (MatchStage.PLACE, _place),
    (MatchStage.PLACE, _made),
)
_RENAMED: Final[tuple[tuple[MatchStage, Identity], ...]] = (
    (MatchStage.RENAMED, _renamed_at_one_place),
    (MatchStage.RENAMED, _renamed),
)
