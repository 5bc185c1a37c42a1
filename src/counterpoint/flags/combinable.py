"""Combinable: the collectives of a finished program, taken apart into what XLA's combiner put in.

    all-gather-start (a, b) ──► part a, part b, each with what it has to wait for

The combiner looks at one computation at a time, and merges what has the same key: for all-gathers
who takes part, for reductions also what is computed and in which type. In a finished program merged
collectives have one operand per part; all-reduces are one array more often, concatenated in front.
See xla/service/collective_combiner_utils.h and xla/hlo/transforms/collectives.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.program import (
    Computation,
    Instruction,
    Program,
    collective,
    is_done,
    loop_multiplier,
    replica_groups,
    start_of,
)
from counterpoint.program.launches import launched

KINDS: Final = ("all-gather", "all-reduce", "reduce-scatter")
"""In the order in which XLA's combiners run: each sees what those before it made."""

_CLONE: Final = re.compile(r"(double_buffer|full_unroll)_clone")
_TRIVIAL: Final = 3  # two parameters and the operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One collective as it was before any were merged.

    `bytes` are what the combiner counts, the result: of an all-gather the whole, of a
    reduce-scatter what one device keeps. `before` are the parts of its computation that it, or the
    way to it, waits for, in the order in which XLA walks them. `instruction` carries it today.
    """

    kind: str
    bytes: int
    key: Hashable
    before: tuple[int, ...]
    instruction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One computation: its parts, and the order in which XLA walks them from the end."""

    computation: str
    times: int | None  # how often it runs in one execution; None where that can't be known
    in_loop: bool
    parts: tuple[Part, ...]
    roots: tuple[int, ...]


def places(program: Program, kind: str) -> tuple[Place, ...]:
    """Where in a program collectives of this kind are, as its combiner found them."""
    split = KINDS[KINDS.index(kind) :]
    found = (_place(program, computation, kind, split) for computation in launched(program))
    return tuple(place for place in found if place.parts)


def unrolled(program: Program) -> bool:
    """Whether XLA copied the body of a loop; the combiner saw it once, before."""
    return any(_is_clone(it) for it in program.instructions)


def _place(program: Program, computation: Computation, kind: str, split: Sequence[str]) -> Place:
    walk = _Walk(program, computation, kind, split)
    times = loop_multiplier(program, computation.name)
    return Place(
        computation=computation.name,
        times=times,
        in_loop=computation.name != program.entry and times != 1,
        parts=tuple(walk.parts()),
        roots=walk.roots(),
    )


class _Walk:
    """The instructions of one computation, walked backwards from operand to operand."""

    def __init__(
        self, program: Program, computation: Computation, kind: str, split: Sequence[str]
    ) -> None:
        self.program = program
        self.computation = computation
        # Parts of other kinds are only passed through, but one at a time: merging came later.
        self._values = {
            it.name: _values(program, it)
            for it in computation.instructions
            if _kind(program, it) in split
        }
        self._own = [
            it
            for it in computation.instructions
            if _kind(program, it) == kind and not _is_clone(it)
        ]
        self._first: dict[str, int] = {}
        at = 0
        for it in self._own:
            self._first[it.name] = at
            at += len(self._values[it.name])

    def parts(self) -> Iterator[Part]:
        for it in self._own:
            key = _key(self.program, it)
            for value, size in self._values[it.name]:
                yield Part(
                    kind=_kind(self.program, it) or "",
                    bytes=size,
                    key=key,
                    before=tuple(self._waits_for([value])),
                    instruction=it.name,
                )

    def roots(self) -> tuple[int, ...]:
        """The parts met first from the values that nobody uses, the result among them."""
        ends = [it for it in self.computation.instructions if not self.program.users(it)]
        found: dict[int, None] = {}
        for end in ends:
            found |= dict.fromkeys(self._waits_for([end]))
        return tuple(found)

    def _waits_for(self, start: Sequence[Instruction]) -> list[int]:
        """The nearest parts behind some values, the first operand's first, as XLA visits them."""
        found: dict[int, None] = {}
        seen: set[tuple[str, int | None]] = set()
        waiting: list[tuple[Instruction, int | None]] = [(it, None) for it in reversed(start)]
        while waiting:
            it, element = waiting.pop()
            if (it.name, element) in seen:
                continue
            seen.add((it.name, element))
            if it.name in self._first:
                found |= dict.fromkeys(self._numbers(it, element))
                continue
            waiting.extend(reversed(self._behind(it, element)))
        return list(found)

    def _numbers(self, it: Instruction, element: int | None) -> range | tuple[int, ...]:
        first, count = self._first[it.name], len(self._values[it.name])
        if element is not None and element < count:
            return (first + element,)
        return range(first, first + count)

    def _behind(
        self, it: Instruction, element: int | None
    ) -> list[tuple[Instruction, int | None]]:
        """What a value is made of; of a tuple's element only its own part where it is known."""
        if it.opcode == "get-tuple-element":
            return [(operand, it.tuple_index) for operand in self.program.operands(it)]
        if it.name in self._values:
            values = self._values[it.name]
            picked = values[element : element + 1] if element is not None else values
            return [(value, None) for value, _ in picked or values]
        start = start_of(self.program, it) if is_done(it) else None
        if start is not None and start.computation == it.computation:
            return [(start, element)]
        return [(operand, None) for operand in self.program.operands(it)]


def _kind(program: Program, it: Instruction) -> str | None:
    """The kind of a collective by its start, or by itself where it is in one piece."""
    if is_done(it) or it.opcode == "fusion":
        return None
    found = collective(program, it)
    return found.kind if found is not None and found.kind in KINDS else None


def _values(program: Program, it: Instruction) -> list[tuple[Instruction, int]]:
    """What each part takes, and the bytes of what it gives."""
    operands = program.operands(it)
    if _kind(program, it) == "all-reduce":
        whole = _concatenated(program, operands)
        return [(value, value.shape.bytes) for value in whole or operands]
    results = _results(it, len(operands))
    return list(zip(operands, results, strict=False))


def _results(it: Instruction, count: int) -> list[int]:
    """Bytes of each result: a start is typed (operands, results, ...)."""
    shape = it.shape
    if it.opcode.endswith("-start") and len(shape.parts) > 1:
        shape = shape.parts[1]
    return [part.bytes for part in shape.parts] if len(shape.parts) == count else [shape.bytes]


def _concatenated(program: Program, operands: Sequence[Instruction]) -> list[Instruction] | None:
    """The arrays that XLA laid one behind the other for one all-reduce; None where it did not."""
    if len(operands) != 1 or len(operands[0].shape.dims) != 1:
        return None
    (whole,) = operands
    inner = program.root(whole.calls[0]) if whole.opcode == "fusion" and whole.calls else whole
    values = program.operands(whole)
    if inner is None or inner.opcode != "concatenate" or len(inner.operands) != len(values):
        return None
    if sum(value.shape.bytes for value in values) != whole.shape.bytes:
        return None
    return values


def _key(program: Program, it: Instruction) -> Hashable:
    """Equal for collectives that may be merged. What can't be merged has a key of its own."""
    told = (
        replica_groups(program, it),
        it.channel_id is not None,
        it.use_global_device_ids,
        '"is_pipelined":true' in it.backend_config.replace(" ", ""),
    )
    if _kind(program, it) == "all-gather":
        return told
    reduction = program.computations.get(it.calls[0]) if it.calls else None
    root = program.root(it.calls[0]) if it.calls else None
    if reduction is None or root is None or len(reduction.instructions) != _TRIVIAL:
        return (it.name, *told)
    return (root.opcode, root.shape.dtype, *told)


def is_pipelined(part: Part) -> bool:
    """Whether the pipeliner moved it to another iteration; merged apart from the others."""
    return isinstance(part.key, tuple) and part.key[-1] is True


def _is_clone(it: Instruction) -> bool:
    return any(_CLONE.search(name) for name in (it.name, it.scheduling_name, *it.operands))
