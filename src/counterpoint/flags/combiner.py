"""XLA's combiner of collectives: which collectives of a program it merges at one threshold.

A finished program is first taken apart into what the combiner was given: a merged collective has
one operand per part, except that the parts of an all-reduce are usually concatenated into one
array. What may merge has the same key: for all-gathers the devices that take part, for reductions
also the operation and the type. The combiner looks at one computation at a time, so nothing merges
across the iterations of a loop.

Source: CombineInstructionsByKey in xla/service/collective_combiner_utils.h, and
xla/hlo/transforms/collectives.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from counterpoint.hlo.collectives import collective, replica_groups
from counterpoint.hlo.loops import loop_multiplier
from counterpoint.hlo.model.instruction import Computation, Instruction
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.schedule import in_loop, is_done

__all__ = [
    "DEFAULT",
    "KINDS",
    "MAX_COLLECTIVES_IN_ONE",
    "CombinerInput",
    "CombinerState",
    "combiner_inputs",
]

KINDS: Final = ("all-gather", "all-reduce", "reduce-scatter")
"""The kinds in the order of XLA's combiners: each sees the results of those before it."""

_CLONE: Final = re.compile(r"(double_buffer|full_unroll)_clone")
_TRIVIAL: Final = 3  # two parameters and the operation


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmergedCollective:
    """One collective as it was before any were merged.

    `bytes` is the size that the combiner counts, that of the result: for an all-gather the whole,
    for a reduce-scatter what one device keeps. `before` are the parts of its computation that it
    waits for, directly or through other instructions, in the order in which XLA visits them.
    `instruction` is the one that performs it now.
    """

    kind: str
    bytes: int
    key: Hashable
    before: tuple[int, ...]
    instruction: str
    pipelined: bool = False  # moved to another iteration of its loop; merged apart from the others


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinerInput:
    """One computation: its parts, and the order in which XLA visits them from the end."""

    computation: str
    times: int | None  # how often it runs in one execution; None if unknown
    in_loop: bool
    parts: tuple[UnmergedCollective, ...]
    roots: tuple[int, ...]


def combiner_inputs(
    program: Program, kind: str, *, by_dimension: bool = False
) -> tuple[CombinerInput, ...]:
    """Return where a program has collectives of this kind, as its combiner found them.

    `by_dimension`: those along different dimensions are not merged, the default for reduce-scatters
    before jaxlib 0.5.
    """
    split = KINDS[KINDS.index(kind) :]
    inputs = (
        _place(program, _Trace(program, computation, kind, split, by_dimension=by_dimension))
        for computation in launched(program)
    )
    return tuple(place for place in inputs if place.parts)


def unrolled(program: Program) -> bool:
    """Return whether XLA copied the body of a loop; the combiner saw it once, before that."""
    return any(_is_clone(instruction) for instruction in program.instructions)


def _place(program: Program, trace: _Trace) -> CombinerInput:
    name = trace.computation.name
    return CombinerInput(
        computation=name,
        times=loop_multiplier(program, name),
        in_loop=in_loop(program, name),
        parts=tuple(trace.follow()),
        roots=trace.roots(),
    )


class _Trace:
    """The nearest parts that each value of one computation waits for, in XLA's order.

    XLA goes from the end to the operands, the first operand first, and visits each value once; so a
    part that an earlier one already waits for need not be listed again.
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

    def follow(self) -> Iterator[UnmergedCollective]:
        """Yield the parts, in the order in which the computation is written."""
        for instruction in self._instructions:
            kind = _kind(self._program, instruction)
            if kind is None or kind not in self._split:
                self._pass_on(instruction)
                continue
            values = _values(self._program, instruction)
            nearest = [self._whole[value.name] for value, _ in values]
            if kind == self._kind and not _is_clone(instruction):
                along = instruction.dimensions if self._by_dimension else ()
                key = (_key(self._program, instruction), along)
                first = len(self._waits)
                for before, (_, size) in zip(nearest, values, strict=True):
                    self._waits.append(self._closure(before))
                    yield UnmergedCollective(
                        kind=kind,
                        bytes=size,
                        key=key,
                        before=before,
                        instruction=instruction.name,
                        pipelined=_is_pipelined(instruction),
                    )
                nearest = [(at,) for at in range(first, len(self._waits))]
            # Parts of other kinds are passed through one by one: they were merged later.
            self._elements[instruction.name] = tuple(nearest)
            self._whole[instruction.name] = self._joined(nearest)

    def roots(self) -> tuple[int, ...]:
        """Return what the unused values wait for, the result among them."""
        ends = (
            instruction
            for instruction in self._instructions
            if not self._program.users(instruction)
        )
        return self._joined(self._whole[instruction.name] for instruction in ends)

    def _pass_on(self, it: Instruction) -> None:
        """Pass on what the operands wait for; an element of a tuple waits only for its own part."""
        behind = it.operands
        elements = self._elements.get(behind[0]) if behind else None
        if elements is not None and is_done(it):
            self._elements[it.name] = elements
        if elements is not None and it.opcode == "get-tuple-element" and len(elements) > 1:
            self._whole[it.name] = elements[it.tuple_index or 0]
        else:
            self._whole[it.name] = self._joined([self._whole[name] for name in behind])

    def _joined(self, lists: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
        # Most values wait for what all their operands wait for: one joined list, joined already.
        different = [parts for parts in lists if parts]
        if len(different) > 1:
            different = list({id(parts): parts for parts in different}.values())
        if len(different) < 2:
            return different[0] if different else ()
        nearest = list(different[0])
        known = self._closure(nearest)
        for parts in different[1:]:
            for at in parts:
                if not known >> at & 1:
                    nearest.append(at)
                    known |= self._waits[at] | 1 << at
        return tuple(nearest)

    def _closure(self, parts: Iterable[int]) -> int:
        bits = 0
        for at in parts:
            bits |= self._waits[at] | 1 << at
        return bits


def _kind(program: Program, it: Instruction) -> str | None:
    """Return the kind of a collective, given its start or the single instruction; else None."""
    if is_done(it) or it.opcode == "fusion":
        return None
    communication = collective(program, it)
    return communication.kind if communication is not None and communication.kind in KINDS else None


def _values(program: Program, it: Instruction) -> list[tuple[Instruction, int]]:
    """Return the operand of each part, and the bytes of its result."""
    operands = program.operands(it)
    if _kind(program, it) == "all-reduce":
        whole = _concatenated(program, operands)
        return [(value, value.shape.bytes) for value in whole or operands]
    results = _results(it, len(operands))
    return list(zip(operands, results, strict=False))


def _results(it: Instruction, count: int) -> list[int]:
    """Return the bytes of each result: a start is typed (operands, results, ...)."""
    shape = it.shape
    if it.opcode.endswith("-start") and len(shape.parts) > 1:
        shape = shape.parts[1]
    return [part.bytes for part in shape.parts] if len(shape.parts) == count else [shape.bytes]


def _concatenated(program: Program, operands: Sequence[Instruction]) -> list[Instruction] | None:
    """Return the arrays that XLA concatenated for one all-reduce; None if it did not."""
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
    """Return a key, equal for collectives that may be merged; unmergeable ones have their own."""
    shared_key = (
        replica_groups(program, it),
        it.channel_id is not None,
        it.use_global_device_ids,
        _is_pipelined(it),
    )
    if _kind(program, it) == "all-gather":
        return shared_key
    reduction = program.computations.get(it.calls[0]) if it.calls else None
    root = program.root(it.calls[0]) if it.calls else None
    if reduction is None or root is None or len(reduction.instructions) != _TRIVIAL:
        return (it.name, *shared_key)
    return (root.opcode, root.shape.dtype, *shared_key)


def _is_pipelined(it: Instruction) -> bool:
    return '"is_pipelined":true' in it.backend_config.replace(" ", "")


def _is_clone(it: Instruction) -> bool:
    return any(_CLONE.search(name) for name in (it.name, it.scheduling_name, *it.operands))


DEFAULT: Final = 31457287  # 30 MiB + 7, of all three flags in every release
MAX_COLLECTIVES_IN_ONE: Final = 2048  # xla_gpu_collective_combine_threshold_count; 256 before 0.10
_ALL: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The merged sets of one computation's parts, and the next threshold that changes them.

    `next` is None if no threshold does.
    """

    sets: tuple[tuple[int, ...], ...]
    next: int | None


def merge_by_default(place: CombinerInput, most: int = MAX_COLLECTIVES_IN_ONE) -> MergeResult:
    """Merge a computation's collectives at the default: pipelined ones first, without a limit.

    The available memory is not considered.
    """
    merging = CombinerState(place)
    pipelined = [at for at, part in enumerate(place.parts) if part.pipelined]
    first = merging.run(_ALL, pipelined, most)
    alone = {at for merged_set in first.sets if len(merged_set) == 1 for at in merged_set}
    remaining = [at for at in range(len(place.parts)) if at not in pipelined or at in alone]
    second = merging.run(DEFAULT, remaining, most)
    joined = tuple(merged_set for merged_set in first.sets if len(merged_set) > 1)
    return MergeResult((*joined, *second.sets), second.next)


@dataclass(slots=True)
class _Node:
    """A collective of the current graph: one part, or several merged ones."""

    parts: tuple[int, ...]
    before: tuple[int, ...]  # parts, in XLA's order


@dataclass(slots=True)
class CombinerState:
    """The graph of one computation's parts, and what each of them waits for, also indirectly."""

    place: CombinerInput
    _alone: list[_Node] = field(init=False)
    _waits_at_first: list[int] = field(init=False)
    _node_of: list[_Node] = field(init=False)
    _waits: list[int] = field(init=False)  # bits of parts

    def __post_init__(self) -> None:
        parts = self.place.parts
        self._node_of = [_Node((at,), part.before) for at, part in enumerate(parts)]
        self._waits = [0] * len(parts)
        for at, part in enumerate(parts):  # what a part waits for precedes it
            waits = 0
            for operand in part.before:
                waits |= self._waits[operand] | 1 << operand
            self._waits[at] = waits
        self._alone = [_Node((at,), self._needed(part.before)) for at, part in enumerate(parts)]
        self._waits_at_first = self._waits
        self.reset()

    def reset(self) -> None:
        """Undo all merging."""
        self._node_of, self._waits = [*self._alone], [*self._waits_at_first]

    def run(self, threshold: int, among: Iterable[int], most: int) -> MergeResult:
        """Merge some of the parts as XLA's combiner does; earlier merges stay.

        In the order in which XLA visits the computation, the next collective joins the current set
        if it has the same key, waits for none of the set, and the sum stays within the threshold.
        At the first of the same key that does not fit or waits for the set, or at `most` members,
        the set is closed and another one begins. A collective that is larger than the threshold
        stays alone.
        """
        left = set(among)
        sets: list[tuple[int, ...]] = []
        missed: list[int] = []
        order = self._post_order()
        first = 0
        while left:
            while order[first] not in left:
                first += 1
            chosen, too_large, failed = self._choose(threshold, left, most, order[first:])
            missed += failed
            sets += [(at,) for at in too_large]
            left.difference_update(too_large, chosen)
            if chosen:
                sets.append(tuple(chosen))
            if len(chosen) > 1 and self._join(chosen, order[: order.index(chosen[0])]):
                order, first = self._post_order(), 0
        return MergeResult(tuple(sets), min(missed, default=None))

    def _choose(
        self, threshold: int, left: set[int], most: int, order: Iterable[int]
    ) -> tuple[list[int], list[int], list[int]]:
        """Return the next set, parts too large for any set, and thresholds that would change it."""
        parts = self.place.parts
        chosen: list[int] = []
        too_large: list[int] = []
        missed: list[int] = []
        total = taken = 0
        for at in order:
            if at not in left or (chosen and parts[at].key != parts[chosen[0]].key):
                continue
            size = parts[at].bytes
            if size > threshold:
                too_large.append(at)
                missed.append(size)
                continue
            if total + size > threshold:
                missed.append(total + size)
                break
            if self._waits[at] & taken:
                break
            chosen.append(at)
            total += size
            taken |= 1 << at
            if len(chosen) >= most:
                break
        return chosen, too_large, missed

    def _join(self, chosen: Sequence[int], visited: Sequence[int]) -> bool:
        """Replace several nodes by one; whatever waits for one of them then waits for all.

        Return whether that changes the order of the nodes that are not `visited` before them.
        """
        bits = waits = 0
        before: dict[int, None] = {}
        for at in chosen:
            bits |= 1 << at
            waits |= self._waits[at]
            before |= dict.fromkeys(self._node_of[at].before)
        node = _Node(tuple(chosen), self._needed(before))
        for at in chosen:
            self._node_of[at] = node
            self._waits[at] = waits
        for at, known in enumerate(self._waits):
            if known & bits:
                self._waits[at] = known | bits | waits
        return not before.keys() <= set(visited)

    def _needed(self, before: Iterable[int]) -> tuple[int, ...]:
        """Drop the parts that are already visited by the time the traversal reaches them."""
        needed: list[int] = []
        known = 0
        for at in before:
            if not known >> at & 1:
                needed.append(at)
                known |= self._waits[at] | 1 << at
        return tuple(needed)

    def _post_order(self) -> list[int]:
        """Return the depth-first order from the end, operands first, as in XLA.

        XLA's function is HloComputation::MakeInstructionPostOrder.
        """
        order: list[int] = []
        state: dict[int, bool] = {}  # by node: False when opened, True when closed
        waiting = [self._node_of[at] for at in reversed(self.place.roots)]
        while waiting:
            node = waiting[-1]
            closed = state.get(id(node))
            if closed is None:
                state[id(node)] = False
                waiting.extend(self._node_of[at] for at in reversed(node.before))
                continue
            waiting.pop()
            if not closed:
                state[id(node)] = True
                order.extend(node.parts)
        return order


def part_bytes(parts: Sequence[UnmergedCollective], at: Iterable[int]) -> int:
    """Return the total size of a set of parts, as the combiner counts it."""
    return sum(parts[index].bytes for index in at)
