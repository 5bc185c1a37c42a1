"""Combinable: the collectives of a finished program, taken apart into what XLA's combiner put in.

    all-gather-start (a, b) ──► part a, part b, each with what it has to wait for

The combiner looks at one computation at a time, and merges what has the same key: for all-gathers
who takes part, for reductions also what is computed and in which type. In a finished program merged
collectives have one operand per part; all-reduces are one array more often, concatenated in front.
See xla/service/collective_combiner_utils.h and xla/hlo/transforms/collectives.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.hlo import (
    Computation,
    Instruction,
    Program,
    collective,
    in_loop,
    is_done,
    loop_multiplier,
    replica_groups,
)
from counterpoint.hlo.launches import launched

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
    pipelined: bool = False  # moved to another iteration of its loop; merged apart from the others


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One computation: its parts, and the order in which XLA walks them from the end."""

    computation: str
    times: int | None  # how often it runs in one execution; None where that can't be known
    in_loop: bool
    parts: tuple[Part, ...]
    roots: tuple[int, ...]


def places(program: Program, kind: str, *, by_dimension: bool = False) -> tuple[Place, ...]:
    """Where in a program collectives of this kind are, as its combiner found them.

    `by_dimension` where those along different dimensions stay apart, as reduce-scatters did by
    default before jaxlib 0.5.
    """
    split = KINDS[KINDS.index(kind) :]
    found = (
        _place(program, _Trace(program, computation, kind, split, by_dimension=by_dimension))
        for computation in launched(program)
    )
    return tuple(place for place in found if place.parts)


def unrolled(program: Program) -> bool:
    """Whether XLA copied the body of a loop; the combiner saw it once, before."""
    return any(_is_clone(it) for it in program.instructions)


def _place(program: Program, trace: _Trace) -> Place:
    name = trace.computation.name
    return Place(
        computation=name,
        times=loop_multiplier(program, name),
        in_loop=in_loop(program, name),
        parts=tuple(trace.follow()),
        roots=trace.roots(),
    )


class _Trace:
    """Which parts the values of one computation wait for, the nearest only, in XLA's order.

    XLA walks from the end to the operands, the first operand first, and visits each value once; so
    a part that an earlier one waits for anyhow need not be named again.
    """

    def __init__(
        self,
        program: Program,
        computation: Computation,
        kind: str,
        split: Sequence[str],
        *,
        by_dimension: bool,
    ) -> None:
        self.computation = computation
        self._program = program
        self._instructions = computation.instructions
        self._by_dimension = by_dimension
        self._kind = kind
        self._split = split
        self._whole: dict[str, tuple[int, ...]] = {}
        self._elements: dict[str, tuple[tuple[int, ...], ...]] = {}
        self._waits: list[int] = []  # by part: the bits of all that it waits for

    def follow(self) -> Iterator[Part]:
        """The parts, in the order in which their computation is written."""
        for it in self._instructions:
            kind = _kind(self._program, it)
            if kind is None or kind not in self._split:
                self._pass_on(it)
                continue
            values = _values(self._program, it)
            nearest = [self._whole[value.name] for value, _ in values]
            if kind == self._kind and not _is_clone(it):
                along = it.dimensions if self._by_dimension else ()
                key = (_key(self._program, it), along)
                first = len(self._waits)
                for before, (_, size) in zip(nearest, values, strict=True):
                    self._waits.append(self._closure(before))
                    yield Part(
                        kind=kind,
                        bytes=size,
                        key=key,
                        before=before,
                        instruction=it.name,
                        pipelined=_is_pipelined(it),
                    )
                nearest = [(at,) for at in range(first, len(self._waits))]
            # Of other kinds, the parts are passed through one by one: they were merged later.
            self._elements[it.name] = tuple(nearest)
            self._whole[it.name] = self._joined(nearest)

    def roots(self) -> tuple[int, ...]:
        """What the values wait for that nobody uses, the result among them."""
        ends = (it for it in self._instructions if not self._program.users(it))
        return self._joined(self._whole[it.name] for it in ends)

    def _pass_on(self, it: Instruction) -> None:
        """A value waits for what its operands wait for; an element of a tuple only for its own."""
        behind = self._program.operands(it)
        elements = self._elements.get(behind[0].name) if behind else None
        if elements is not None and is_done(it):
            self._elements[it.name] = elements
        if elements is not None and it.opcode == "get-tuple-element" and len(elements) > 1:
            self._whole[it.name] = elements[it.tuple_index or 0]
        else:
            self._whole[it.name] = self._joined(self._whole[value.name] for value in behind)

    def _joined(self, lists: Iterable[Iterable[int]]) -> tuple[int, ...]:
        kept: list[int] = []
        known = 0
        for one in lists:
            for at in one:
                if not known >> at & 1:
                    kept.append(at)
                    known |= self._waits[at] | 1 << at
        return tuple(kept)

    def _closure(self, parts: Iterable[int]) -> int:
        bits = 0
        for at in parts:
            bits |= self._waits[at] | 1 << at
        return bits


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
        _is_pipelined(it),
    )
    if _kind(program, it) == "all-gather":
        return told
    reduction = program.computations.get(it.calls[0]) if it.calls else None
    root = program.root(it.calls[0]) if it.calls else None
    if reduction is None or root is None or len(reduction.instructions) != _TRIVIAL:
        return (it.name, *told)
    return (root.opcode, root.shape.dtype, *told)


def _is_pipelined(it: Instruction) -> bool:
    return '"is_pipelined":true' in it.backend_config.replace(" ", "")


def _is_clone(it: Instruction) -> bool:
    return any(_CLONE.search(name) for name in (it.name, it.scheduling_name, *it.operands))
