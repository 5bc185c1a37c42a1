"""Small collectives that XLA's combiner would merge at another threshold.

What may be merged `flags.advice` computes as XLA:GPU does: of one computation, one kind, one group
of devices, none waiting for another. Here it is asked which of those that are small now would go
together, and at which threshold the fewest of them are left. What was in force when the program was
compiled did not merge them, so where that is known only larger thresholds are looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.exposure.given import given_flags, on_gpu
from counterpoint.flags.advice.combinable import KINDS, Place, places
from counterpoint.flags.advice.combiner import DEFAULT, MOST_IN_ONE, Merging
from counterpoint.flags.advice.thresholds import flag_of

SMALL_BYTES: Final = 1 << 20
"""Up to which starting a collective outweighs carrying it: NCCL comes to half its bandwidth at
several MiB (nccl-tests on 8 H100 and on A100)."""

_WALKED: Final = 4096
"""Collectives in one computation up to which it is asked; beyond, answers take minutes."""


@dataclass(frozen=True, slots=True)
class Merger:
    """Instructions of one computation that would become fewer at a threshold of their kind."""

    kind: str
    computation: str
    in_loop: bool
    threshold: int
    sets: tuple[tuple[str, ...], ...]

    @property
    def flag(self) -> str:
        return flag_of(self.kind)


def mergers(case: Case, rows: Sequence[Mapping[str, Any]]) -> tuple[Merger, ...]:
    """Of the step's exposed collectives, which `rows` are."""
    small = {row["op"] for row in rows if row["kind"] in KINDS and _is_small(row)}
    if case.program is None or len(small) < 2 or not on_gpu(case):
        return ()
    flags = given_flags(case)
    kinds = {row["kind"] for row in rows if row["op"] in small}
    return tuple(
        found
        for kind in KINDS
        if kind in kinds
        for place in places(case.program, kind)
        if (found := _merger(kind, place, small, _in_force(kind, flags))) is not None
    )


def _is_small(row: Mapping[str, Any]) -> bool:
    """By what all ranks end up with, or start with."""
    return row["bytes"] is not None and row["bytes"] <= SMALL_BYTES


def _in_force(kind: str, flags: Mapping[str, str] | None) -> int:
    """The threshold that did not merge them; 0 where nobody knows."""
    if flags is None:
        return 0
    given = flags.get(flag_of(kind), "")
    return int(given) if given.isdecimal() else DEFAULT


def _merger(kind: str, place: Place, small: Collection[str], in_force: int) -> Merger | None:
    asked = {at for at, part in enumerate(place.parts) if part.instruction in small}
    now = {place.parts[at].instruction for at in asked}
    if len(now) < 2 or len(place.parts) > _WALKED:
        return None
    best: tuple[int, int, tuple[tuple[str, ...], ...]] | None = None
    merging = Merging(place)
    for threshold in _thresholds(place, asked):
        if threshold <= in_force:
            continue
        merging.reset()
        merged = merging.run(threshold, range(len(place.parts)), MOST_IN_ONE)
        sets = tuple(_sets(place, merged.sets, asked))
        left = len(now) - sum(len(one) - 1 for one in sets)
        if sets and (best is None or left < best[0]):
            best = (left, threshold, sets)
    if best is None:
        return None
    return Merger(kind, place.computation, place.in_loop, best[1], best[2])


def _thresholds(place: Place, asked: set[int]) -> list[int]:
    """The default where it is enough, else what holds the small ones, else what holds all."""
    small = sum(place.parts[at].bytes for at in asked)
    return sorted({DEFAULT, max(DEFAULT, small), max(DEFAULT, sum(p.bytes for p in place.parts))})


def _sets(
    place: Place, sets: Sequence[tuple[int, ...]], asked: set[int]
) -> Iterator[tuple[str, ...]]:
    """Small instructions that are several now and would be one."""
    for one in sets:
        names = dict.fromkeys(place.parts[at].instruction for at in sorted(asked & set(one)))
        if len(names) > 1:
            yield tuple(names)
