"""Loops that were unrolled or rolled up: other instructions, the same work as often as before.

`lax.scan` over layers runs one instruction n times where a Python loop has n of them, and scopes
then differ in the number of the layer (`layers_3/mlp`) or in a name said twice.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from math import isclose
from typing import Final

from counterpoint.diagnose.compare.item import Item

Group = tuple[tuple[Item, ...], tuple[Item, ...]]

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
