"""Replication: which devices compute the same value, and which values depend on the batch.

A forward data-flow analysis of the partitioned program. It starts from the shardings of the entry's
parameters, where devices with the same tile hold the same. An instruction gives the same result
where all its operands are the same, a collective where its groups have the same members' values.
What is not known to be deterministic is assumed to differ everywhere, so "the same" is certain and
"different" is not. XLA has an analysis of this kind, too (hlo_replication_analysis.h).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.hlo.category import Category, category
from counterpoint.hlo.collectives import KINDS, pairs_by_number, replica_groups
from counterpoint.hlo.dataflow import Dataflow, leaves
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.model.sharding import Sharding
from counterpoint.hlo.phase import Phase, phase

__all__ = ["Batch", "Replication", "batch_of", "replication"]

_MOST_DEVICES: Final = 8192
_KEY_ELEMENTS: Final = 4
"""Of a key of random numbers, which is no batch of integers."""
_SAME_EVERYWHERE: Final = ("constant", "iota", "replica-id")
_DIFFERENT: Final = ("partition-id", "rng", "infeed", "recv", "rng-get-and-update-state")
_DETERMINISTIC: Final = (
    Category.MATMUL, Category.CONVOLUTION, Category.ATTENTION, Category.SORT, Category.COPY,
)  # fmt: skip
_BY_POSITION: Final = ("reduce-scatter", "all-to-all")
_UNFOLLOWED: Final = ("send", "recv", "ragged-all-to-all")

# Of an array: the number of a partition of the devices, and whether it depends on the batch.
_Leaf = tuple[int, bool]
_Value = tuple[_Leaf, ...]
_Same = tuple[int, ...]

_ALIKE: Final = 0
_DISTINCT: Final = 1


@dataclass(frozen=True, slots=True)
class Batch:
    """The data of the step: the parameters that have it, and how their examples are spread.

    `part_of` is the part of the examples that each device is given; `examples` how many are in it.
    Where what is cut may be a sequence, `is_of_examples` is false. Devices with the same `tile_of`
    are given the same data, and others none or another part of a sequence.
    """

    parameters: frozenset[int]
    examples: int
    part_of: tuple[int, ...]
    tile_of: tuple[int, ...]
    is_of_examples: bool


@dataclass(frozen=True, eq=False)
class Replication:
    """The values of a program's instructions, over its devices."""

    devices: int
    batch: Batch
    values: dict[str, _Value]
    partitions: Sequence[_Same]

    def depends_on_batch(self, instruction: Instruction) -> bool:
        return any(batch for _, batch in self.values.get(instruction.name, ()))

    def same(self, instruction: Instruction) -> tuple[int, ...]:
        """Return a label for each device: equal ones compute the same array."""
        (number, _), *_ = self.values[instruction.name]
        return self.partitions[number]

    def copies(self, instruction: Instruction) -> tuple[int, ...]:
        """Return the devices that compute the same as device 0, itself among them."""
        leaves = self.values.get(instruction.name, ())
        if not leaves:
            return (0,)
        same = [self.partitions[number] for number, _ in leaves]
        return tuple(
            device
            for device in range(self.devices)
            if all(partition[device] == partition[0] for partition in same)
        )


def replication(program: Program) -> Replication | None:
    """Return the analysis; None if the program does not say how its parameters are sharded."""
    key = "replication"
    if key not in program.answers:
        program.answers[key] = _analyzed(program)
    answer: Replication | None = program.answers[key]
    return answer


def _analyzed(program: Program) -> Replication | None:
    devices = program.num_partitions
    batch = batch_of(program)
    if not 1 < devices <= _MOST_DEVICES or program.num_replicas > 1 or batch is None:
        return None
    analysis = _Analysis(program)
    given = sorted(_parameters(program), key=lambda it: it.parameter_number or 0)
    analysis.run(program.entry, tuple(analysis.parameter(it, batch) for it in given))
    return Replication(devices, batch, analysis.values, analysis.partitions)


def _parameters(program: Program) -> list[Instruction]:
    return [
        it
        for it in program.computations[program.entry].instructions
        if it.parameter_number is not None
    ]


def _sharding(program: Program, parameter: Instruction) -> Sharding | None:
    """Return the sharding of a parameter, if it is one over the program's devices."""
    sharding = program.sharding(parameter)
    return sharding if sharding and sharding.devices in (0, program.num_partitions) else None


def batch_of(program: Program) -> Batch | None:
    """Return the step's data; None if no parameter is recognized as such, or its shards differ.

    Integers are data (tokens, labels). Other data is read and not returned: a training step returns
    new weights, an inference a result for each example. An input that is donated is state.
    """
    donated = {alias.parameter for alias in program.aliases}
    fresh = [
        it
        for it in _parameters(program)
        if it.parameter_number not in donated and it.shape.dims and not _is_key(it.shape)
    ]
    root = program.root(program.entry)
    results = list(root.shape.leaves) if root else []
    integers = [it for it in fresh if it.shape.dtype[0] in "su" or it.shape.dtype == "pred"]
    if any(phase(program, it) is Phase.BACKWARD for it in program.instructions if it.op_name):
        returned = {(shape.dtype, shape.dims) for shape in results}
        data = integers + [
            it
            for it in fresh
            if it not in integers and (it.shape.dtype, it.shape.dims) not in returned
        ]
    else:
        firsts = {shape.dims[0] for shape in results if shape.dims}
        data = integers or [it for it in fresh if it.shape.dims[0] in firsts]
    return _batch(program, data, max(integers, key=_size, default=None))


def _batch(program: Program, data: list[Instruction], tokens: Instruction | None) -> Batch | None:
    chosen = tokens or max(data, key=_size, default=None)
    sharding = _sharding(program, chosen) if chosen else None
    if chosen is None or sharding is None:
        return None
    cut = (at for at in range(_rank(chosen)) if sharding.parts_of(at) > 1)
    dimension = next(cut, 0)
    is_first = dimension == 0 and any(_rank(it) > 1 for it in data)  # not of packed sequences
    is_of_microbatches = chosen is tokens and dimension == 1 < _rank(chosen) - 1
    return Batch(
        parameters=frozenset(it.parameter_number or 0 for it in data),
        examples=chosen.shape.dims[dimension],
        part_of=tuple(sharding.position(it, dimension) for it in range(program.num_partitions)),
        tile_of=sharding.tile_of or (0,) * program.num_partitions,
        is_of_examples=is_first or is_of_microbatches,
    )


def _rank(instruction: Instruction) -> int:
    return len(instruction.shape.dims)


def _size(instruction: Instruction) -> int:
    return instruction.shape.elements


def _is_key(shape: Shape) -> bool:
    return shape.dtype == "u32" and shape.elements <= _KEY_ELEMENTS


class _Analysis(Dataflow[_Leaf]):
    """Numbers the partitions of the devices, and follows them through the program."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        devices = range(program.num_partitions)
        self.partitions: list[_Same] = [(0,) * len(devices), tuple(devices)]
        self._numbers = {same: number for number, same in enumerate(self.partitions)}
        self._met: dict[tuple[int, int], int] = {}
        self._sent: dict[tuple[object, ...], int] = {}

    def parameter(self, it: Instruction, batch: Batch) -> _Value:
        sharding = _sharding(self.program, it)
        if sharding is None:
            same = _DISTINCT
        else:
            same = self._partition(sharding.tile_of) if sharding.tile_of else _ALIKE
        return ((same, it.parameter_number in batch.parameters),) * leaves(it.shape)

    def merge(self, one: _Leaf, other: _Leaf) -> _Leaf:
        return self._meet(one[0], other[0]), one[1] or other[1]

    def chosen_by(self, value: _Value, choice: _Leaf) -> _Value:
        return tuple((self._meet(same, choice[0]), batch) for same, batch in value)

    def transfer(self, it: Instruction, operands: list[_Value]) -> _Value:
        kind = it.opcode.removesuffix("-start")
        if kind in KINDS:
            return self._collective(it, kind, operands)
        same, batch = self._all(operands)
        if it.opcode in _DIFFERENT or not self._is_deterministic(it):
            same = _DISTINCT
        elif it.opcode in _SAME_EVERYWHERE:
            same = _ALIKE
        return ((same, batch),) * leaves(it.shape)

    def _is_deterministic(self, it: Instruction) -> bool:
        return it.opcode != "custom-call" or category(self.program, it) in _DETERMINISTIC

    def _all(self, operands: Iterable[_Value]) -> _Leaf:
        return self.all_of((leaf for operand in operands for leaf in operand), (_ALIKE, False))

    def _collective(self, it: Instruction, kind: str, operands: list[_Value]) -> _Value:
        received = [leaf for operand in operands for leaf in operand]
        if kind == "all-to-all":  # its tuple form mixes the operands
            received = [self._all(operands)] * len(received)
        return tuple((self._sent_as(it, kind, same), batch) for same, batch in received)

    def _sent_as(self, it: Instruction, kind: str, same: int) -> int:
        key = (kind, it.groups, it.source_target_pairs, it.channel_id is None, same)
        if key not in self._sent:
            self._sent[key] = self._send(it, kind, self.partitions[same])
        return self._sent[key]

    def _send(self, it: Instruction, kind: str, same: _Same) -> int:
        devices = range(len(same))
        if kind == "collective-permute":
            source = {target: sender for sender, target in pairs_by_number(it)}
            return self._partition(
                same[source[device]] if device in source else -1 for device in devices
            )
        if kind in _UNFOLLOWED:
            return _DISTINCT
        groups = replica_groups(self.program, it) or (tuple(devices),)
        result: dict[int, object] = {}
        for group in groups:
            members = tuple(same[device] for device in group)
            for place, device in enumerate(group):
                result[device] = (members, place) if kind in _BY_POSITION else members
        return self._partition(result.get(device, device) for device in devices)

    def _partition(self, labels: Iterable[object]) -> int:
        """Return the number of the partition of the devices by their labels."""
        names: dict[object, int] = {}
        same = tuple(names.setdefault(label, len(names)) for label in labels)
        if same not in self._numbers:
            self._numbers[same] = len(self.partitions)
            self.partitions.append(same)
        return self._numbers[same]

    def _meet(self, one: int, other: int) -> int:
        """Return the partition into devices that are alike in both."""
        if other in (one, _ALIKE):
            return one
        if one == _ALIKE:
            return other
        key = (min(one, other), max(one, other))
        if key not in self._met:
            both = zip(self.partitions[one], self.partitions[other], strict=True)
            self._met[key] = self._partition(both)
        return self._met[key]
