"""Collectives that were combined or split: several on one side move the bytes of one of the other.

XLA's combiner joins neighbours of one kind and one group. So bytes decide: those in all executions
of a step, which also follows a collective that moved into a loop or out of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

from counterpoint.diagnose.compare.item import Item

Group = tuple[tuple[Item, ...], tuple[Item, ...]]

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
