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
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import accumulate, groupby
from math import isclose
from typing import Final

from counterpoint.core.frozen import frozen
from counterpoint.diagnose.compare.side import Atom, ComparedOp
from counterpoint.hlo.work import Category

Group = tuple[tuple[ComparedOp, ...], tuple[ComparedOp, ...]]

_COMMON: Final = 64
"""Ops of a side; content that more of them share (a loop's index, casts) is not used as a link."""


def fused_groups(a: Sequence[ComparedOp], b: Sequence[ComparedOp]) -> Iterator[Group]:
    """Yield groups of the two sides that share most of their content.

    An op of A and one of B belong together if half of the content of the smaller is in the other.
    Ops connected this way form one group, which is compared as a whole.
    """
    a_items, b_items = _with_content(a), _with_content(b)
    holders: defaultdict[tuple[str, Atom], list[int]] = defaultdict(list)
    for index, item in enumerate(b_items):
        for atom in item.content:
            holders[item.program, atom].append(index)
    home = list(range(len(a_items) + len(b_items)))
    for index, item in enumerate(a_items):
        shared = Counter(
            other
            for atom in item.content
            if len(holding := holders.get((item.program, atom), [])) <= _COMMON
            for other in holding
        )
        for other, count in shared.items():
            if 2 * count >= min(len(item.content), len(b_items[other].content)):
                home[_root(home, index)] = _root(home, len(a_items) + other)
    yield from _groups(home, a_items, b_items)


def _with_content(items: Sequence[ComparedOp]) -> list[ComparedOp]:
    return [item for item in items if item.content and not item.is_collective]


def _root(home: list[int], at: int) -> int:
    while home[at] != at:
        home[at] = home[home[at]]
        at = home[at]
    return at


def _groups(home: list[int], mine: list[ComparedOp], theirs: list[ComparedOp]) -> Iterator[Group]:
    sides: defaultdict[int, tuple[list[ComparedOp], list[ComparedOp]]] = defaultdict(
        lambda: ([], [])
    )
    for index, item in enumerate((*mine, *theirs)):
        sides[_root(home, index)][index >= len(mine)].append(item)
    for left, right in sides.values():
        if left and right:
            yield tuple(left), tuple(right)


_NUMBER: Final = re.compile(r"[._-]?\d+$")
_AS_OFTEN: Final = 1e-3


def looped_groups(a: Sequence[ComparedOp], b: Sequence[ComparedOp]) -> Iterator[Group]:
    """Yield groups of unequal size that do the same work equally often in a step.

    `lax.scan` over layers runs one instruction n times where a Python loop has n instructions.
    Scopes then differ in the number of the layer (`layers_3/mlp`) or in a repeated name.
    """
    a_works, b_works = _by_work(a), _by_work(b)
    for work, left in a_works.items():
        right = b_works.get(work, [])
        if len(left) != len(right) and right and _as_often(left, right):
            yield tuple(left), tuple(right)


def _by_work(items: Sequence[ComparedOp]) -> dict[Hashable, list[ComparedOp]]:
    found: defaultdict[Hashable, list[ComparedOp]] = defaultdict(list)
    for item in items:
        if item.content and item.scope and not item.is_collective:
            scope = _unnumbered(item.scope)
            found[
                item.program, item.category, scope, item.primitive, item.phase, item.result
            ].append(item)
    return found


def _unnumbered(scope: str) -> str:
    """Return `layers/mlp` for `layers/layers_3/mlp`."""
    parts = (_NUMBER.sub("", part) or part for part in scope.split("/"))
    return "/".join(part for part, _ in groupby(parts))


def _as_often(a: Sequence[ComparedOp], b: Sequence[ComparedOp]) -> bool:
    counts = [sum(item.count for item in side) for side in (a, b)]
    return isclose(*counts, rel_tol=_AS_OFTEN)


_Kind = tuple[str, str | None, int | None]


def merged_groups(a: Sequence[ComparedOp], b: Sequence[ComparedOp]) -> Iterator[Group]:
    """Yield groups of the two sides with equal bytes, one of them with several members.

    XLA's combiner joins collectives of one kind and group. Bytes are summed over all executions in
    a step, so a collective that moved into a loop or out of it is matched, too.
    """
    a_kinds, b_kinds = _by_kind(a), _by_kind(b)
    for kind in a_kinds.keys() & b_kinds.keys():
        left, right = a_kinds[kind], b_kinds[kind]
        for few, many, swapped in ((right, left, False), (left, right, True)):
            for single, several in _one_for_many(few, many):
                yield ((single,), several) if swapped else (several, (single,))
                few.remove(single)
                for member in several:
                    many.remove(member)
        if left and right and len(left) + len(right) > 2 and _moved(left) == _moved(right):
            yield tuple(left), tuple(right)


def _by_kind(items: Sequence[ComparedOp]) -> defaultdict[_Kind, list[ComparedOp]]:
    """Group collectives by kind, in order of the schedule; those of unknown size are left out."""
    found: defaultdict[_Kind, list[ComparedOp]] = defaultdict(list)
    for item in items:
        if item.is_collective and item.bytes and item.count:
            found[item.program, item.kind, item.group_size].append(item)
    return found


def _one_for_many(
    few: list[ComparedOp], many: list[ComparedOp]
) -> list[tuple[ComparedOp, tuple[ComparedOp, ...]]]:
    """Find neighbors in the schedule whose bytes add up to those of one; each is used once."""
    found: list[tuple[ComparedOp, tuple[ComparedOp, ...]]] = []
    free = list(many)
    for single in few:
        run = _run_of(free, _volume(single))
        if len(run) > 1:
            found.append((single, run))
            free = [item for item in free if item not in run]
    return found


def _run_of(items: list[ComparedOp], volume: int) -> tuple[ComparedOp, ...]:
    """Return the first run of neighbors that moves `volume` bytes."""
    sums = [0, *accumulate(_volume(item) for item in items)]
    reached: dict[int, int] = {}
    for end, total in enumerate(sums):
        if (first := reached.get(total - volume)) is not None:
            return tuple(items[first:end])
        reached[total] = end
    return ()


def _volume(op: ComparedOp) -> int:
    return round((op.bytes or 0) * op.count)


def _moved(items: Sequence[ComparedOp]) -> int:
    return sum(map(_volume, items))


_NUMBERING: Final = re.compile(r"([._](\d+|clone|remat\d*))+$")


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


@frozen
class OpMatch:
    """Ops of A that correspond to those of B; one side is empty if nothing was found."""

    a: tuple[ComparedOp, ...]
    b: tuple[ComparedOp, ...]
    how: MatchStage


Identity = Callable[[ComparedOp], Hashable]
"""None: the item has no identity in this stage and is left to the next."""


def match_items(a: Sequence[ComparedOp], b: Sequence[ComparedOp]) -> tuple[OpMatch, ...]:
    """Return every item of both sides, in exactly one match."""
    left = _Unmatched(list(a), list(b))
    found = left.group(MatchStage.LOOPED, looped_groups(left.a, left.b))
    for how, identity in (
        *_FIRST,
        (MatchStage.NAME, _name_unless(_programs_with_hlo(a) & _programs_with_hlo(b))),
    ):
        found += left.pair(how, identity)
    found += left.group(MatchStage.MERGED, merged_groups(left.a, left.b))
    for how, identity in _SHAPES:
        found += left.pair(how, identity)
    found += left.group(MatchStage.FUSED, fused_groups(left.a, left.b))
    for how, identity in _LAST:
        found += left.pair(how, identity)
    for how, identity in _RENAMED:
        found += left.pair(how, identity, renamed=True)
    found += [OpMatch((item,), (), MatchStage.ALONE) for item in left.a]
    found += [OpMatch((), (item,), MatchStage.ALONE) for item in left.b]
    return tuple(found)


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
        found = [
            OpMatch((item,), (waiting[known].pop(),), how)
            for item in self.a
            if (known := identity(item)) is not None and waiting.get(known)
        ]
        if renamed:
            counts = [Counter(map(identity, side)) for side in (self.a, self.b)]
            found = [match for match in found if _equally(identity(match.a[0]), *counts)]
            found = [match for match in found if not match.a[0].content & match.b[0].content]
        elif how is MatchStage.SHAPES:
            gemms = ([it for it in side if _is_gemm(it)] for side in (self.a, self.b))
            counts = [Counter(map(identity, side)) for side in gemms]
            found = [match for match in found if _equally(identity(match.a[0]), *counts)]
        else:
            found = [match for match in found if _agree(match.a[0].scope, match.b[0].scope)]
        if how is MatchStage.NAME:  # a collective of 1 GiB must not match one of 16 MiB
            found = [match for match in found if _agree(match.a[0].bytes, match.b[0].bytes)]
        self._take(found)
        return found

    def group(
        self,
        how: MatchStage,
        groups: Iterable[tuple[tuple[ComparedOp, ...], tuple[ComparedOp, ...]]],
    ) -> list[OpMatch]:
        """Match several of A with several of B."""
        found = [OpMatch(a, b, how) for a, b in groups]
        self._take(found)
        return found

    def _take(self, found: Iterable[OpMatch]) -> None:
        gone = {id(item) for match in found for item in (*match.a, *match.b)}
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
