"""Examples: where the batch lies in each value, and how many times a device's own part it holds.

A forward data-flow analysis of the partitioned program, like `replication`. It starts from the data
among the entry's parameters, where each device holds its own examples along one dimension, and from
weights that are cut along the same axes of the mesh. It follows these dimensions, and what
collectives do with them: an all-gather or an all-to-all over devices with different examples gives
each of them all of these; an all-to-all or a reduce-scatter over devices with the same examples can
divide them again.

What is not understood is unknown, so a place that is stated is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from counterpoint.hlo.category import Category, category
from counterpoint.hlo.collectives import KINDS, pairs_by_number, replica_groups
from counterpoint.hlo.dataflow import Dataflow
from counterpoint.hlo.model.groups import Groups
from counterpoint.hlo.model.instruction import DotDimensions, Instruction, Shape
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.replication import Batch, batch_of, replication
from counterpoint.hlo.work import dot_dimensions

__all__ = ["Examples", "Held", "Piece", "examples"]

_MOST_DEVICES: Final = 1024
_SUMMING: Final = ("all-reduce", "reduce-scatter")
_SLICING: Final = ("slice", "dynamic-slice")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a dimension's index: `size` values, each for `stride` neighbours."""

    dimension: int
    stride: int
    size: int


@dataclass(frozen=True, slots=True)
class Held:
    """What a device holds of the batch, or of a weight that is cut along the axes of the batch.

    `pieces` are the dimensions, but those of one element: they are nowhere. `parts` is the number
    of a partition of the devices into those with the same examples, or the same part of the weight;
    negative if that is unknown. They are `times` as many as the entry gives to one device.
    """

    pieces: tuple[Piece, ...]
    parts: int
    times: int
    is_batch: bool

    @property
    def is_known(self) -> bool:
        return self.parts >= 0

    def at(self, pieces: Iterable[Piece]) -> Held:
        """Return the same, elsewhere."""
        return replace(self, pieces=_joined(pieces))


Fact = Held | None
_Partition = tuple[int, ...]

_LOST: Final = Held((), -1, 0, is_batch=True)
"""Of the batch, but not followed: with a value of a known place, the result has that place."""
_MIXED: Final = Held((), -2, 0, is_batch=True)
"""Of examples in more than one place, such as the scores of all examples for each."""
_SOME_WEIGHT: Final = Held((), -1, 0, is_batch=False)


@dataclass(frozen=True, eq=False)
class Examples:
    """The values of a program's instructions, each of its arrays."""

    values: dict[str, tuple[Fact, ...]]
    partitions: Sequence[_Partition]

    def of(self, instruction: Instruction) -> Held | None:
        """Return what is known of an array, or of the first of several."""
        held = next(iter(self.values.get(instruction.name, ())), None)
        return held if held and held.is_known else None

    def is_sum(self, instruction: Instruction) -> bool:
        """Return whether no dimension of an array, or of the first of several, has examples."""
        return next(iter(self.values.get(instruction.name, ())), None) is None

    def times(self, instruction: Instruction) -> int:
        """Return how many times its own part of the batch a device holds at most in a value."""
        held = self.values.get(instruction.name, ())
        return max((it.times for it in held if it and it.is_batch), default=0)


def examples(program: Program) -> Examples | None:
    """Return the analysis; None if the program does not say how its examples are sharded."""
    key = "examples"
    if key not in program.answers:
        program.answers[key] = _analyzed(program)
    answer: Examples | None = program.answers[key]
    return answer


def _analyzed(program: Program) -> Examples | None:
    batch = batch_of(program)
    if not 1 < program.num_partitions <= _MOST_DEVICES or program.num_replicas > 1:
        return None
    if batch is None or not batch.is_of_examples:
        return None
    analysis = _Analysis(program, batch)
    given = sorted(
        (it for it in program.computations[program.entry].instructions if _is_parameter(it)),
        key=lambda it: it.parameter_number or 0,
    )
    analysis.run(program.entry, tuple(analysis.parameter(it) for it in given))
    return Examples(analysis.values, analysis.partitions)


def _is_parameter(it: Instruction) -> bool:
    return it.parameter_number is not None


class _Analysis(Dataflow[Fact]):
    """Follows pieces of dimensions through the program."""

    def __init__(self, program: Program, batch: Batch) -> None:
        super().__init__(program)
        self.batch = batch
        self.partitions: list[_Partition] = []
        self._numbers: dict[_Partition, int] = {}
        self._together: dict[tuple[object, ...], int | None] = {}
        self._given = self._partition(batch.part_of)
        self._spread = replication(program)

    def parameter(self, it: Instruction) -> tuple[Fact, ...]:
        facts = [None for _ in it.shape.leaves]
        if len(facts) != 1 or it.shape.is_tuple:
            return tuple(facts)
        if it.parameter_number in self.batch.parameters:
            return (self._data(it),)
        return (self._weight(it),)

    def _data(self, it: Instruction) -> Fact:
        for dimension, parts in self._cuts(it):
            if parts == self._given and it.shape.dims[dimension] == self.batch.examples:
                piece = Piece(dimension, 1, self.batch.examples)
                return Held(_joined([piece]), parts, 1, is_batch=True)
        return _LOST if self._cuts(it) else None

    def _weight(self, it: Instruction) -> Fact:
        """Return where it is cut along axes that cut the batch; along others it is of no interest.

        Such are dimensions of which devices with the same examples hold the same part.
        """
        given = self.partitions[self._given]
        cuts = [
            (dimension, parts)
            for dimension, parts in self._cuts(it)
            if len(set(zip(given, self.partitions[parts], strict=True))) == len(set(given))
        ]
        if len(cuts) != 1:
            return None
        ((dimension, parts),) = cuts
        piece = Piece(dimension, 1, it.shape.dims[dimension])
        return Held(_joined([piece]), parts, 1, is_batch=False)

    def _cuts(self, it: Instruction) -> list[tuple[int, int]]:
        """Return each dimension that is cut, and the number of the partition of the devices."""
        sharding = self.program.sharding(it)
        devices = range(self.program.num_partitions)
        if sharding is None or sharding.devices != len(devices):
            return []
        return [
            (dimension, self._partition(sharding.position(it, dimension) for it in devices))
            for dimension in range(len(it.shape.dims))
            if sharding.parts_of(dimension) > 1
        ]

    def merge(self, one: Fact, other: Fact) -> Fact:
        if one == other or other is None:
            return one
        if one is None:
            return other
        if one.is_batch is not other.is_batch:
            return one if one.is_batch else other
        if _LOST in (one, other):
            return other if one == _LOST else one
        return _MIXED if one.is_batch else _SOME_WEIGHT

    def transfer(self, it: Instruction, operands: list[tuple[Fact, ...]]) -> tuple[Fact, ...]:
        kind = it.opcode.removesuffix("-start")
        arrays = [
            (shape, fact)
            for operand, facts in zip(self.program.operands(it), operands, strict=True)
            for shape, fact in zip(operand.shape.leaves, facts, strict=False)
        ]
        if kind in KINDS:
            return tuple(self._collective(it, kind, shape, fact) for shape, fact in arrays)
        if it.opcode.endswith("-start"):
            return tuple(fact for _, fact in arrays[:1])
        if dot := dot_dimensions(it):
            rest = len(list(it.shape.leaves)) - 1
            return (self._product(dot, arrays), *(None for _ in range(rest)))
        if not any(fact for _, fact in arrays):
            return tuple(None for _ in it.shape.leaves)
        return tuple(self._result(it, leaf, arrays) for leaf in it.shape.leaves)

    def _result(self, it: Instruction, result: Shape, arrays: list[tuple[Shape, Fact]]) -> Fact:
        if it.opcode == "gather":
            return self._looked_up(it, arrays)
        if it.opcode == "scatter":
            return arrays[0][1]
        if it.opcode == "dynamic-update-slice":
            (_, base), (shape, update) = arrays[:2]
            return self.merge(base, self._moved(it, shape, result, update))
        if it.opcode == "reduce":
            arrays = arrays[: len(arrays) // 2]
        moved = [self._moved(it, shape, result, fact) for shape, fact in arrays]
        if category(self.program, it) is Category.ATTENTION:  # keys of fewer heads, for one
            alike = [f for f, (s, _) in zip(moved, arrays, strict=True) if s.dims == result.dims]
            moved = alike or moved
        elif it.opcode == "custom-call":
            moved = [fact and _lost(fact) for fact in moved]
        return self.all_of(moved, None)

    def _moved(self, it: Instruction, shape: Shape, result: Shape, fact: Fact) -> Fact:
        """Return the fact of an operand's array, seen in the result."""
        if fact is None or not fact.is_known:
            return fact
        if it.opcode in _SLICING:
            return self._sliced(it, shape, result, fact)
        return _MOVES.get(it.opcode, _in_place)(it, shape, result, fact)

    def _sliced(self, it: Instruction, shape: Shape, result: Shape, fact: Held) -> Held:
        pieces: list[Piece] = []
        share = 1
        chosen: list[_Partition] = []
        for piece in fact.pieces:
            before, after = shape.dims[piece.dimension], result.dims[piece.dimension]
            if before == after:
                pieces.append(piece)
                continue
            if piece.stride * piece.size != before or after % piece.stride:
                return _lost(fact)
            pieces.append(replace(piece, size=after // piece.stride))
            start = self._start(it, piece.dimension)
            if len(set(start)) > 1:  # each device takes another part, and not all a microbatch
                share *= before // after
                chosen.append(start)
        if not chosen:
            return fact.at(pieces)
        parts = list(zip(*chosen, strict=True))
        # Starts that are looked up in a table count as different everywhere.
        return (
            self._divided(fact, pieces, share, parts) if len(set(parts)) == share else _lost(fact)
        )

    def _start(self, slicing: Instruction, dimension: int) -> _Partition:
        """Return the devices that begin at the same index, as a partition."""
        starts = self.program.operands(slicing)[1:]
        if self._spread is None or dimension >= len(starts):
            return (0,)
        return self._spread.same(starts[dimension])

    def _divided(
        self, fact: Held, pieces: Iterable[Piece], share: int, part: Iterable[object]
    ) -> Held:
        """Return what devices that have the same hold when each keeps only its part of it."""
        if fact.times % share or not fact.is_batch:
            return _lost(fact)
        parts = self._partition(zip(self.partitions[fact.parts], part, strict=True))
        return Held(_joined(pieces), parts, fact.times // share, is_batch=True)

    def _looked_up(self, it: Instruction, arrays: list[tuple[Shape, Fact]]) -> Fact:
        (_, table), (shape, at) = arrays[:2]
        from_batch = table is not None and table.is_batch
        if at is None or not at.is_batch or it.indexing is None:
            return _LOST if from_batch else table and _SOME_WEIGHT
        outer = [dim for dim in range(len(it.shape.dims)) if dim not in it.indexing.window_dims]
        if table is not None and from_batch and (table.parts, table.times) != (at.parts, at.times):
            return _MIXED
        return _renumbered(at, dict(enumerate(outer))) if len(outer) <= len(shape.dims) else at

    def _product(self, dims: DotDimensions, arrays: list[tuple[Shape, Fact]]) -> Fact:
        (left, of_left), (right, of_right) = arrays[:2]
        facts = [fact for fact in (of_left, of_right) if fact and fact.is_batch]
        if not facts:
            return _SOME_WEIGHT if of_left or of_right else None
        if not all(fact.is_known for fact in facts):
            return _MIXED if _MIXED in facts else _LOST
        to_left, to_right = _free_dimensions(dims, len(left.dims), len(right.dims))
        results = [
            _renumbered(fact, to)
            for fact, to in ((of_left, to_left), (of_right, to_right))
            if fact and fact.is_batch
        ]
        if len(results) == 1 or results[0] == results[1]:
            is_sum = results[0] is None or (len(results) == 2 and not facts[0].pieces)
            return None if is_sum and not dims.lhs_batch else results[0]
        return _MIXED

    def _collective(self, it: Instruction, kind: str, shape: Shape, fact: Fact) -> Fact:
        if fact is None or not fact.is_known:
            return fact
        if kind == "collective-permute":
            return self._sent(it, fact)
        groups = replica_groups(self.program, it) or (tuple(range(self.program.num_partitions)),)
        together = self._united(it, groups, fact.parts)
        if together is None:
            return _lost(fact)
        if together == fact.parts:
            return self._within(it, kind, shape, fact, groups)
        if kind in _SUMMING:
            return None if fact.is_batch else _SOME_WEIGHT
        return self._gathered(it, kind, shape, replace(fact, parts=together), len(groups[0]))

    def _sent(self, it: Instruction, fact: Held) -> Held:
        """Return what each device holds after it got that of another one."""
        held = self.partitions[fact.parts]
        source = {target: sender for sender, target in pairs_by_number(it)}
        if len(source) < len(held):  # others have zeros
            return _lost(fact)
        parts = self._partition(held[source[device]] for device in range(len(held)))
        return replace(fact, parts=parts)

    def _united(self, it: Instruction, groups: Groups, parts: int) -> int | None:
        """Return the partition if each device has what its whole group has.

        That is the same one if they have the same, and None if only some of them do.
        """
        key = (it.groups, it.use_global_device_ids, it.channel_id is None, parts)
        if key not in self._together:
            held = self.partitions[parts]
            members = {device: group for group in groups for device in group}
            different = {len({held[device] for device in group}) for group in groups}
            if different == {1}:
                self._together[key] = parts
            elif different == {len(groups[0])} and len(members) == len(held):
                self._together[key] = self._partition(
                    tuple(held[member] for member in members[device]) for device in range(len(held))
                )
            else:
                self._together[key] = None
        return self._together[key]

    def _partition(self, labels: Iterable[object]) -> int:
        """Return the number of the partition of the devices by their labels."""
        names: dict[object, int] = {}
        numbers = tuple(names.setdefault(label, len(names)) for label in labels)
        if numbers not in self._numbers:
            self._numbers[numbers] = len(self.partitions)
            self.partitions.append(numbers)
        return self._numbers[numbers]

    def _within(self, it: Instruction, kind: str, shape: Shape, fact: Held, groups: Groups) -> Held:
        """Return what a collective makes of what all its devices hold alike."""
        if kind == "all-reduce" or not it.dimensions:
            return fact if kind == "all-reduce" else _lost(fact)
        dimension, members = it.dimensions[0], len(groups[0])
        along = [piece for piece in fact.pieces if piece.dimension == dimension]
        if not along:
            return fact
        major = along[-1]
        is_whole = shape.dims[dimension] == major.stride * major.size
        if kind == "all-gather" or not is_whole or major.size % members:
            return _lost(fact)
        rest = [piece for piece in fact.pieces if piece is not major]
        place = {device: at for group in groups for at, device in enumerate(group)}
        return self._divided(
            fact,
            [replace(major, size=major.size // members), *rest],
            members,
            (place.get(device) for device in range(self.program.num_partitions)),
        )

    def _gathered(self, it: Instruction, kind: str, shape: Shape, fact: Held, members: int) -> Held:
        """Return what devices with different examples hold when each has those of all."""
        if kind not in ("all-gather", "all-to-all") or not it.dimensions:
            return _lost(fact)
        dimension = it.dimensions[0]
        size = shape.dims[dimension]
        if kind == "all-to-all":
            if any(piece.dimension == dimension for piece in fact.pieces) or size % members:
                return _lost(fact)
            size //= members
        whole = replace(fact, times=fact.times * members)
        return whole.at([*fact.pieces, Piece(dimension, size, members)])


def _free_dimensions(
    dims: DotDimensions, left: int, right: int
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the dimensions of a product's result for those of its factors that it keeps."""
    both = len(dims.lhs_batch)
    to_left = {dim: at for at, dim in enumerate(dims.lhs_batch)}
    to_right = {dim: at for at, dim in enumerate(dims.rhs_batch)}
    free = [dim for dim in range(left) if dim not in (*dims.lhs_batch, *dims.lhs_contracting)]
    to_left |= {dim: both + at for at, dim in enumerate(free)}
    both += len(free)
    free = [dim for dim in range(right) if dim not in (*dims.rhs_batch, *dims.rhs_contracting)]
    to_right |= {dim: both + at for at, dim in enumerate(free)}
    return to_left, to_right


def _lost(fact: Held) -> Held:
    return _LOST if fact.is_batch else _SOME_WEIGHT


def _joined(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Return the pieces in order, neighbours in a dimension as one, without those of one value."""
    result: list[Piece] = []
    for piece in sorted(pieces, key=lambda it: (it.dimension, it.stride)):
        if piece.size == 1:
            continue
        last = result[-1] if result else None
        if last and last.dimension == piece.dimension and last.stride * last.size == piece.stride:
            result[-1] = replace(last, size=last.size * piece.size)
        else:
            result.append(piece)
    return tuple(result)


def _renumbered(fact: Held, to: dict[int, int]) -> Fact:
    """Return the fact with other dimensions; None if a sum over all examples is left."""
    left = [
        replace(piece, dimension=to[piece.dimension])
        for piece in fact.pieces
        if piece.dimension in to
    ]
    if len(left) == len(fact.pieces):
        return fact.at(left)
    if left:
        return _lost(fact)
    return None if fact.is_batch else _SOME_WEIGHT


def _in_place(it: Instruction, shape: Shape, result: Shape, fact: Held) -> Held:
    """Return the fact if the result has the same dimensions, as far as they matter."""
    same = len(shape.dims) == len(result.dims) and all(
        shape.dims[piece.dimension] == result.dims[piece.dimension] for piece in fact.pieces
    )
    return fact if same and it.opcode != "convolution" else _lost(fact)


def _broadcast(it: Instruction, shape: Shape, result: Shape, fact: Held) -> Fact:
    del shape, result
    return _renumbered(fact, dict(enumerate(it.dimensions)))


def _transposed(it: Instruction, shape: Shape, result: Shape, fact: Held) -> Fact:
    del shape, result
    return _renumbered(fact, {old: new for new, old in enumerate(it.dimensions)})


def _reduced(it: Instruction, shape: Shape, result: Shape, fact: Held) -> Fact:
    del result
    kept = [dim for dim in range(len(shape.dims)) if dim not in it.dimensions]
    return _renumbered(fact, {old: new for new, old in enumerate(kept)})


def _joined_to_others(it: Instruction, shape: Shape, result: Shape, fact: Held) -> Fact:
    is_along = any(piece.dimension in it.dimensions for piece in fact.pieces)
    return _lost(fact) if is_along else _in_place(it, shape, result, fact)


def _reshaped(it: Instruction, shape: Shape, result: Shape, fact: Held) -> Fact:
    in_memory = it.opcode == "bitcast"
    pieces = _in_a_row(
        fact.pieces,
        _strides(shape, in_memory=in_memory),
        result,
        _strides(result, in_memory=in_memory),
    )
    return _lost(fact) if pieces is None else fact.at(pieces)


_MOVES: Final[Mapping[str, Callable[[Instruction, Shape, Shape, Held], Fact]]] = {
    "bitcast": _reshaped,
    "broadcast": _broadcast,
    "concatenate": _joined_to_others,
    "reduce": _reduced,
    "reshape": _reshaped,
    "transpose": _transposed,
}


def _in_a_row(
    pieces: Iterable[Piece], strides: Mapping[int, int], result: Shape, targets: Mapping[int, int]
) -> list[Piece] | None:
    """Return the pieces in an array with the same elements in a row; None if one is cut oddly."""
    in_result: list[Piece] = []
    for piece in pieces:
        low = strides[piece.dimension] * piece.stride
        high = low * piece.size
        covered = 1
        for dimension, stride in targets.items():
            start, end = max(low, stride), min(high, stride * result.dims[dimension])
            if end <= start:
                continue
            if start % stride or end % start or start % low:
                return None
            in_result.append(Piece(dimension, start // stride, end // start))
            covered *= end // start
        if covered != piece.size:
            return None
    return in_result


def _strides(shape: Shape, *, in_memory: bool) -> dict[int, int]:
    """Return the number of elements between neighbours of each dimension."""
    order = shape.minor_to_major if in_memory else ()
    strides: dict[int, int] = {}
    stride = 1
    for dimension in order or reversed(range(len(shape.dims))):
        strides[dimension] = stride
        stride *= shape.dims[dimension]
    return strides
