"""Fusions that absorbed others, or fell apart: ops are followed by what the user wrote inside.

An op of A and one of B belong together where half of what the smaller holds is in the other; what
hangs together so is one group, and compared as a whole. Content that is in many ops tells nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from counterpoint.diagnose.compare.item import Atom, Item

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
