"""Which ops of A are which of B: by what they are, then by the work they do, then by content.

Names mean nothing across two compiles: XLA counts its fusions as it makes them. So ops are paired
in stages, the surest first, and a stage sees what earlier ones have left:

    looped    instructions of one scope, primitive and result, as often in all, but fewer or more
    same      equal key and content; those that bear one name first, then in order of the schedule
    work      equal scope, primitive, content and result, whatever instruction carries it out;
              without HLO equal scope, source line, operations and bytes, as the profile tells them
    name      equal names, where one side's HLO is not known
    shapes    equal scope, primitive and content, other shapes
    merged    collectives of one kind and group, several for one with the same bytes in all
    fused     ops that hold mostly the same content: groups of several on either side
    place     equal scope and primitive, or equal source line, and little else
    renamed   equal opcode, phase, shapes and content but for scopes, in order of the schedule;
              collectives of one kind, group and bytes

A collective of other bytes is another one, unless it stands at the same scope.

What is left is in one side alone. Nothing is dropped.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, groupby
from math import isclose
from typing import Final

from counterpoint.diagnose.compare.side import Atom, Item

Group = tuple[tuple[Item, ...], tuple[Item, ...]]

_COMMON: Final = 64
"""Ops of a side; what more of them hold (a loop's index, a cast everywhere) links nothing."""


def fused_groups(a: Sequence[Item], b: Sequence[Item]) -> Iterator[Group]:
    """Groups of the two sides that hold the same content."""
    mine, theirs = _told(a), _told(b)
    holders: defaultdict[tuple[str, Atom], list[int]] = defaultdict(list)
    for at, it in enumerate(theirs):
        for atom in it.content:
            holders[it.program, atom].append(at)
    home = list(range(len(mine) + len(theirs)))
    for at, it in enumerate(mine):
        shared = Counter(
            other
            for atom in it.content
            if len(found := holders.get((it.program, atom), [])) <= _COMMON
            for other in found
        )
        for other, count in shared.items():
            if 2 * count >= min(len(it.content), len(theirs[other].content)):
                home[_root(home, at)] = _root(home, len(mine) + other)
    yield from _groups(home, mine, theirs)


def _told(items: Sequence[Item]) -> list[Item]:
    return [it for it in items if it.content and not it.is_collective]


def _root(home: list[int], at: int) -> int:
    while home[at] != at:
        home[at] = home[home[at]]
        at = home[at]
    return at


def _groups(home: list[int], mine: list[Item], theirs: list[Item]) -> Iterator[Group]:
    sides: defaultdict[int, tuple[list[Item], list[Item]]] = defaultdict(lambda: ([], []))
    for at, it in enumerate((*mine, *theirs)):
        sides[_root(home, at)][at >= len(mine)].append(it)
    for left, right in sides.values():
        if left and right:
            yield tuple(left), tuple(right)


_NUMBER: Final = re.compile(r"[._-]?\d+$")
_AS_OFTEN: Final = 1e-3


def looped_groups(a: Sequence[Item], b: Sequence[Item]) -> Iterator[Group]:
    """Unequal numbers of instructions that do one work equally often in a step."""
    mine, theirs = _by_work(a), _by_work(b)
    for work, left in mine.items():
        right = theirs.get(work, [])
        if len(left) != len(right) and right and _as_often(left, right):
            yield tuple(left), tuple(right)


def _by_work(items: Sequence[Item]) -> dict[Hashable, list[Item]]:
    found: defaultdict[Hashable, list[Item]] = defaultdict(list)
    for it in items:
        if it.content and it.scope and not it.is_collective:
            where = _unnumbered(it.scope)
            found[it.program, it.category, where, it.primitive, it.phase, it.result].append(it)
    return found


def _unnumbered(scope: str) -> str:
    """`layers/layers_3/mlp` as `layers/mlp`."""
    parts = (_NUMBER.sub("", part) or part for part in scope.split("/"))
    return "/".join(part for part, _ in groupby(parts))


def _as_often(a: Sequence[Item], b: Sequence[Item]) -> bool:
    times = [sum(it.count for it in side) for side in (a, b)]
    return isclose(*times, rel_tol=_AS_OFTEN)


_Kind = tuple[str, str | None, int | None]


def merged_groups(a: Sequence[Item], b: Sequence[Item]) -> Iterator[Group]:
    """Groups of the two sides with equal bytes, one of them with several members."""
    mine, theirs = _by_kind(a), _by_kind(b)
    for kind in mine.keys() & theirs.keys():
        left, right = mine[kind], theirs[kind]
        for few, many, turned in ((right, left, False), (left, right, True)):
            for one, several in _one_for_many(few, many):
                yield ((one,), several) if turned else (several, (one,))
                few.remove(one)
                for it in several:
                    many.remove(it)
        if left and right and len(left) + len(right) > 2 and _moved(left) == _moved(right):
            yield tuple(left), tuple(right)


def _by_kind(items: Sequence[Item]) -> defaultdict[_Kind, list[Item]]:
    """In order of the schedule; those whose bytes nobody knows are left out."""
    found: defaultdict[_Kind, list[Item]] = defaultdict(list)
    for it in items:
        if it.is_collective and it.bytes and it.count:
            found[it.program, it.kind, it.group_size].append(it)
    return found


def _one_for_many(few: list[Item], many: list[Item]) -> list[tuple[Item, tuple[Item, ...]]]:
    """Neighbours in the schedule whose bytes add up to those of one; each is used once."""
    found: list[tuple[Item, tuple[Item, ...]]] = []
    free = list(many)
    for one in few:
        run = _run_of(free, _volume(one))
        if len(run) > 1:
            found.append((one, run))
            free = [it for it in free if it not in run]
    return found


def _run_of(items: list[Item], volume: int) -> tuple[Item, ...]:
    """The first run of neighbours that moves so much."""
    sums = [0, *accumulate(_volume(it) for it in items)]
    reached: dict[int, int] = {}
    for end, total in enumerate(sums):
        if (first := reached.get(total - volume)) is not None:
            return tuple(items[first:end])
        reached[total] = end
    return ()


def _volume(it: Item) -> int:
    return round((it.bytes or 0) * it.count)


def _moved(items: Sequence[Item]) -> int:
    return sum(map(_volume, items))


_NUMBERING: Final = re.compile(r"([._](\d+|clone|remat\d*))+$")


class How(StrEnum):
    """By what ops were matched."""

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
class Match:
    """Ops of A that do what those of B do; one side is empty where nothing was found."""

    a: tuple[Item, ...]
    b: tuple[Item, ...]
    how: How


Identity = Callable[[Item], Hashable]
"""None: this item has none, and is left to the next stage."""


def match_items(a: Sequence[Item], b: Sequence[Item]) -> tuple[Match, ...]:
    """Every item of both sides, in exactly one match."""
    left = _Left(list(a), list(b))
    found = left.group(How.LOOPED, looped_groups(left.a, left.b))
    for how, identity in (*_FIRST, (How.NAME, _name_unless(_told_of(a) & _told_of(b)))):
        found += left.pair(how, identity)
    found += left.group(How.MERGED, merged_groups(left.a, left.b))
    for how, identity in _SHAPES:
        found += left.pair(how, identity)
    found += left.group(How.FUSED, fused_groups(left.a, left.b))
    for how, identity in _LAST:
        found += left.pair(how, identity)
    for how, identity in _RENAMED:
        found += left.pair(how, identity, renamed=True)
    found += [Match((it,), (), How.ALONE) for it in left.a]
    found += [Match((), (it,), How.ALONE) for it in left.b]
    return tuple(found)


class _Left:
    """What no stage has matched yet."""

    def __init__(self, a: list[Item], b: list[Item]) -> None:
        self.a, self.b = a, b

    def pair(self, how: How, identity: Identity, *, renamed: bool = False) -> list[Match]:
        """One of A with one of B that have one identity, in order; the rest stays.

        Who says of two what scope they are from must say the same, unless scopes were renamed:
        then as many on either side must be left, for else it is a guess which is which.
        """
        waiting: defaultdict[Hashable, list[Item]] = defaultdict(list)
        for it in reversed(self.b):
            if (known := identity(it)) is not None:
                waiting[known].append(it)
        found = [
            Match((it,), (waiting[known].pop(),), how)
            for it in self.a
            if (known := identity(it)) is not None and waiting.get(known)
        ]
        if renamed:
            counts = [Counter(map(identity, side)) for side in (self.a, self.b)]
            found = [it for it in found if _equally(identity(it.a[0]), *counts)]
            found = [it for it in found if not it.a[0].content & it.b[0].content]
        else:
            found = [it for it in found if _agree(it.a[0].scope, it.b[0].scope)]
        if how is How.NAME:  # which does not make a collective of 1 GiB one of 16 MiB
            found = [it for it in found if _agree(it.a[0].bytes, it.b[0].bytes)]
        self._take(found)
        return found

    def group(
        self, how: How, groups: Iterable[tuple[tuple[Item, ...], tuple[Item, ...]]]
    ) -> list[Match]:
        """Several of A with several of B."""
        found = [Match(a, b, how) for a, b in groups]
        self._take(found)
        return found

    def _take(self, found: Iterable[Match]) -> None:
        gone = {id(it) for match in found for it in (*match.a, *match.b)}
        self.a = [it for it in self.a if id(it) not in gone]
        self.b = [it for it in self.b if id(it) not in gone]


def _equally(known: Hashable, a: Counter[Hashable], b: Counter[Hashable]) -> bool:
    return a[known] == b[known]


def _exact(it: Item) -> Hashable:
    """Of a collective, whether it is sync or async is no part of what it is."""
    if it.is_collective:
        if it.bytes is None:
            return None
        what = (it.kind, it.bytes, it.group_size, it.scope, it.primitive, it.phase)
        return (it.program, what)
    return None if it.key is None else (it.program, it.key, it.content)


def _exact_by_name(it: Item) -> Hashable:
    return None if (known := _exact(it)) is None else (known, it.op)


def _told_of(items: Sequence[Item]) -> set[str]:
    """Programs whose HLO is known."""
    return {it.program for it in items if it.key is not None}


def _name_unless(told: set[str]) -> Identity:
    """Names count where nothing better is known: of a program without HLO, or outside of it."""

    def named(it: Item) -> Hashable:
        if it.program in told and it.key is not None:
            return None
        return (it.program, it.op)

    return named


def _agree(a: Hashable, b: Hashable) -> bool:
    return a is None or b is None or a == b


def _work(it: Item) -> Hashable:
    if it.is_collective or not it.content:
        return None
    return (it.program, it.scope, it.primitive, it.phase, it.result, it.content)


def _figures(it: Item) -> Hashable:
    """Of an op without HLO."""
    return None if it.key is not None or it.figures is None else (it.program, it.figures)


def _figures_by_name(it: Item) -> Hashable:
    return None if (known := _figures(it)) is None else (known, it.op)


def _shapes(it: Item) -> Hashable:
    if it.is_collective or not it.content:
        return None
    return (it.program, it.scope, it.primitive, it.phase, it.content)


def _kin(it: Item) -> Hashable:
    """A collective of another size at the same place, which something must tell."""
    if not it.is_collective or not (it.scope or it.source):
        return None
    return (it.program, it.kind, it.group_size, it.scope, it.phase)


def _place(it: Item) -> Hashable:
    if not (it.scope or it.source):
        return None
    return (it.program, it.category, it.scope, it.primitive or _stem(it.op), it.phase)


def _made(it: Item) -> Hashable:
    """What XLA made itself: a copy of that shape, a kernel of that name."""
    if it.scope or it.source or it.is_collective:
        return None
    return (it.program, it.category, it.result, _stem(it.op))


def _renamed(it: Item) -> Hashable:
    """What is left when all that a user may rename is: scopes, and names of functions."""
    if it.is_collective:
        return None if it.bytes is None else (it.program, it.kind, it.group_size, it.bytes)
    if it.unscoped is None:
        return None
    return (it.program, it.category, it.phase, it.result, it.unscoped)


def _renamed_at_one_place(it: Item) -> Hashable:
    if (known := _renamed(it)) is None or not it.source:
        return None
    return (known, it.source)


def _stem(op: str) -> str:
    return _NUMBERING.sub("", op)


_FIRST: Final[tuple[tuple[How, Identity], ...]] = (
    (How.SAME, _exact_by_name),
    (How.SAME, _exact),
    (How.WORK, _work),
    (How.WORK, _figures_by_name),
    (How.WORK, _figures),
)
_SHAPES: Final[tuple[tuple[How, Identity], ...]] = ((How.SHAPES, _shapes),)
_LAST: Final[tuple[tuple[How, Identity], ...]] = (
    (How.PLACE, _kin),
    (How.PLACE, _place),
    (How.PLACE, _made),
)
_RENAMED: Final[tuple[tuple[How, Identity], ...]] = (
    (How.RENAMED, _renamed_at_one_place),
    (How.RENAMED, _renamed),
)
