"""Pipelines: stages on different devices that pass values on, turn by turn.

All devices run the same loop. In each turn a device computes its stage and sends the result to the
next one by a collective-permute. With `turns` turns and `stages` stages, each device has nothing
useful to do in `stages - 1` of them, whether it waits or computes what nobody reads.

Rings for attention or for products in parts pass values on, too, but once around: as many turns as
devices. Neighbours that exchange the edges of their parts send slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from counterpoint.hlo.collectives import pairs_by_number
from counterpoint.hlo.loops import trip_count
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.schedule import enclosing
from counterpoint.hlo.views import VIEWS, writer_of

__all__ = ["Pipeline", "pipelines"]

_PERMUTES: Final = ("collective-permute", "collective-permute-start")
_THROUGH: Final = (*VIEWS, "copy", "collective-permute-done")
_PARTS: Final = ("slice", "dynamic-slice")


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """The permutes of one pipeline; `loop` is None if its turns are written one after another."""

    permutes: tuple[Instruction, ...]
    loop: Instruction | None
    stages: int
    turns: int

    @property
    def empty_share(self) -> float:
        """Share of its turns in which a device has nothing useful to do."""
        return (self.stages - 1) / self.turns


def pipelines(program: Program) -> tuple[Pipeline, ...]:
    """Return the pipelines of a program whose number of turns is known."""
    key = "hlo.pipelines"
    if key not in program.answers:
        program.answers[key] = tuple(_pipelines(program))
    answer: tuple[Pipeline, ...] = program.answers[key]
    return answer


def _pipelines(program: Program) -> Iterator[Pipeline]:
    for computation in launched(program):
        alike: dict[object, list[Instruction]] = {}
        for it in computation.instructions:
            if it.opcode in _PERMUTES and not _is_part(program, it):
                shape = next(it.shape.leaves, it.shape)
                alike.setdefault((pairs_by_number(it), shape.dtype, shape.dims), []).append(it)
        for permutes in alike.values():
            stages, is_ring = _stages(permutes[0])
            loop = _loop_around(program, computation.name)
            if loop is not None and len(permutes) == 1 and _is_carried(program, permutes[0], loop):
                turns = trip_count(program, loop) or 0
            elif loop is None and not is_ring:
                turns = len(permutes)
            else:
                continue
            if stages >= 2 and turns > stages:
                yield Pipeline(tuple(permutes), loop, stages, turns)


def _loop_around(program: Program, computation: str) -> Instruction | None:
    around = enclosing(program, computation)
    return next((caller for caller in around if caller.opcode == "while"), None)


def _stages(permute: Instruction) -> tuple[int, bool]:
    """Return the longest way of a value, in devices, and whether it ends where it began."""
    pairs = pairs_by_number(permute)
    following = dict(pairs)
    if len(following) < len(pairs) or len(set(following.values())) < len(pairs):
        return 0, False  # one device sends to several
    starts = following.keys() - set(following.values())
    is_ring = not starts
    longest = 0
    for start in starts or list(following)[:1]:
        length, at = 1, following.get(start)
        while at is not None and at != start and length <= len(pairs):
            length, at = length + 1, following.get(at)
        longest = max(longest, length)
    return longest, is_ring


def _is_carried(program: Program, permute: Instruction, loop: Instruction) -> bool:
    """Return whether it sends what the last turn left, or what the next turn starts with."""
    shape = next(permute.shape.leaves, permute.shape)
    if all((leaf.dtype, leaf.dims) != (shape.dtype, shape.dims) for leaf in loop.shape.leaves):
        return False
    front, seen = [permute], {permute.name}
    while front:
        value = front.pop()
        root = program.root(value.computation)
        if root is not None and value.name == root.name:
            return True
        for user in program.users(value):
            if user.opcode in _THROUGH and user.name not in seen:
                seen.add(user.name)
                front.append(user)
    source = writer_of(program, permute, _THROUGH)
    return source is not None and source.opcode == "parameter"


def _is_part(program: Program, permute: Instruction) -> bool:
    """Return whether it sends a slice of a larger value."""
    source = writer_of(program, permute, _THROUGH)
    if source is None:
        return False
    if source.opcode == "fusion" and source.calls:
        root = program.root(source.calls[0])
        return root is not None and root.opcode in _PARTS
    return source.opcode in _PARTS
