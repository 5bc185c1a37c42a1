"""Groups of ops that correspond as a whole, several on either side.

fused    ops of which XLA put the content into other fusions
looped   instructions that are in a loop on one side, and one by one on the other
merged   collectives that XLA's combiner joined on one side
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from itertools import accumulate, groupby
from math import isclose
from typing import Final

from counterpoint.diagnose.compare.compared_op import Atom, ComparedOp

Group = tuple[tuple[ComparedOp, ...], tuple[ComparedOp, ...]]

_COMMON: Final = 64
"""Ops of a side; content that more of them share (a loop's index, casts) is not used as a link."""

_NUMBER: Final = re.compile(r"(?:[._-]|(?<!\d))\d++$")
_AS_OFTEN: Final = 1e-3

_Kind = tuple[str, str | None, int | None]


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
    by_work: defaultdict[Hashable, list[ComparedOp]] = defaultdict(list)
    for item in items:
        if item.content and item.scope and not item.is_collective:
            scope = _unnumbered(item.scope)
            by_work[
                item.program, item.category, scope, item.primitive, item.phase, item.result
            ].append(item)
    return by_work


def _unnumbered(scope: str) -> str:
    """Return `layers/mlp` for `layers/layers_3/mlp`."""
    parts = (_NUMBER.sub("", part) or part for part in scope.split("/"))
    return "/".join(part for part, _ in groupby(parts))


def _as_often(a: Sequence[ComparedOp], b: Sequence[ComparedOp]) -> bool:
    counts = [sum(item.count for item in side) for side in (a, b)]
    return isclose(*counts, rel_tol=_AS_OFTEN)


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
    by_kind: defaultdict[_Kind, list[ComparedOp]] = defaultdict(list)
    for item in items:
        if item.is_collective and item.bytes and item.count:
            by_kind[item.program, item.kind, item.group_size].append(item)
    return by_kind


def _one_for_many(
    few: list[ComparedOp], many: list[ComparedOp]
) -> list[tuple[ComparedOp, tuple[ComparedOp, ...]]]:
    """Find neighbors in the schedule whose bytes add up to those of one; each is used once."""
    groups: list[tuple[ComparedOp, tuple[ComparedOp, ...]]] = []
    free = list(many)
    for single in few:
        run = _run_of(free, _volume(single))
        if len(run) > 1:
            groups.append((single, run))
            free = [item for item in free if item not in run]
    return groups


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
