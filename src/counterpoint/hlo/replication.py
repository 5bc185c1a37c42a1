"""Replication: which devices compute the same value, and which values depend on the batch.

A forward data-flow analysis of the partitioned program. It starts from the shardings of the entry's
parameters, where devices with the same tile hold the same. An instruction gives the same result
where all its operands are the same, a collective where its groups have the same members' values.
What is not known to be deterministic is assumed to differ everywhere, so "the same" is certain and
"different" is not. XLA has an analysis of this kind, too (hlo_replication_analysis.h).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Final

from counterpoint.core.frozen import frozen
from counterpoint.hlo.category import Category, category
from counterpoint.hlo.collectives import KINDS, pairs_by_number, replica_groups
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.model.sharding import Sharding
from counterpoint.hlo.phase import Phase, phase
from counterpoint.hlo.schedule import is_done

__all__ = ["Batch", "Replication", "batch_of", "replication"]

_MOST_DEVICES: Final = 8192
_KEY_ELEMENTS: Final = 4
"""Of a key of random numbers, which is no batch of integers."""
_SAME_EVERYWHERE: Final = ("constant", "iota", "replica-id")
_DIFFERENT: Final = ("partition-id", "rng", "infeed", "recv", "rng-get-and-update-state")
_CALLING: Final = ("fusion", "call", "async-start", "call-start", "fusion-start")
_DETERMINISTIC: Final = (
    Category.MATMUL, Category.CONVOLUTION, Category.ATTENTION, Category.SORT, Category.COPY,
)  # fmt: skip
_BY_POSITION: Final = ("reduce-scatter", "all-to-all")
_UNNUMBERED: Final = "ragged-all-to-all"

# Of an array: the number of a partition of the devices, and whether it depends on the batch.
_Leaf = tuple[int, bool]
_Value = tuple[_Leaf, ...]
_Same = tuple[int, ...]

_ALIKE: Final = 0
_DISTINCT: Final = 1


@frozen
class Batch:
    """The data of the step: the parameters that have it, and how their examples are spread.

    `part_of` is the part of the examples that each device is given; `examples` how many are in it.
    """

    parameters: frozenset[int]
    examples: int
    part_of: tuple[int, ...]


@frozen(eq=False, slots=False)
class Replication:
    """The values of a program's instructions, over its devices."""

    devices: int
    batch: Batch
    values: dict[str, _Value]
    partitions: Sequence[_Same]

    def depends_on_batch(self, instruction: Instruction) -> bool:
        return any(batch for _, batch in self.values.get(instruction.name, ()))

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
    found: Replication | None = program.answers[key]
    return found


def _analyzed(program: Program) -> Replication | None:
    devices = program.num_partitions
    batch = batch_of(program)
    if not 1 < devices <= _MOST_DEVICES or program.num_replicas > 1 or batch is None:
        return None
    analysis = _Analysis(program, devices)
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
    found = program.sharding(parameter)
    return found if found and found.devices in (0, program.num_partitions) else None


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
    cut = (at for at in range(len(chosen.shape.dims)) if sharding.parts_of(at) > 1)
    dimension = next(cut, 0)
    return Batch(
        parameters=frozenset(it.parameter_number or 0 for it in data),
        examples=chosen.shape.dims[dimension],
        part_of=tuple(sharding.position(it, dimension) for it in range(program.num_partitions)),
    )


def _size(instruction: Instruction) -> int:
    return instruction.shape.elements


def _is_key(shape: Shape) -> bool:
    return shape.dtype == "u32" and shape.elements <= _KEY_ELEMENTS


class _Analysis:
    """Evaluates computations for given arguments, each combination once."""

    def __init__(self, program: Program, devices: int) -> None:
        self.program = program
        self.devices = devices
        self.partitions: list[_Same] = [(0,) * devices, tuple(range(devices))]
        self.values: dict[str, _Value] = {}
        self._numbers = {same: number for number, same in enumerate(self.partitions)}
        self._met: dict[tuple[int, int], int] = {}
        self._sent: dict[tuple[object, ...], int] = {}
        self._known: dict[tuple[str, tuple[_Value, ...]], _Value] = {}

    def parameter(self, it: Instruction, batch: Batch) -> _Value:
        sharding = _sharding(self.program, it)
        if sharding is None:
            same = _DISTINCT
        else:
            same = self._partition(sharding.tile_of) if sharding.tile_of else _ALIKE
        return ((same, it.parameter_number in batch.parameters),) * _leaves(it.shape)

    def run(self, computation: str, arguments: tuple[_Value, ...]) -> _Value:
        """Return the value of a computation, and note those of its instructions."""
        key = (computation, arguments)
        if key not in self._known:
            found = self.program.computations[computation]
            local: dict[str, _Value] = {}
            for it in found.instructions:
                value = local[it.name] = self._value(
                    it, [local[name] for name in it.operands], arguments
                )
                before = self.values.get(it.name, value)
                self.values[it.name] = self._meet_each(before, value)
            self._known[key] = local[found.root]
        return self._known[key]

    def _value(  # noqa: PLR0911 - one for each kind
        self, it: Instruction, operands: list[_Value], arguments: tuple[_Value, ...]
    ) -> _Value:
        opcode = it.opcode
        if opcode == "parameter":
            return arguments[it.parameter_number or 0]
        if opcode == "tuple":
            return tuple(leaf for operand in operands for leaf in operand)
        if opcode == "get-tuple-element":
            return self._element(it, operands[0])
        if it.calls and opcode in ("while", "conditional", *_CALLING):
            return self._called(it, operands)
        if opcode in ("opt-barrier", "optimization-barrier") or is_done(it):
            return operands[0]
        kind = opcode.removesuffix("-start")
        if kind in KINDS:
            return self._collective(it, kind, operands)
        same, batch = self._all(operands)
        if opcode in _DIFFERENT or not self._is_deterministic(it):
            same = _DISTINCT
        elif opcode in _SAME_EVERYWHERE:
            same = _ALIKE
        return ((same, batch),) * _leaves(it.shape)

    def _called(self, it: Instruction, operands: list[_Value]) -> _Value:
        if it.opcode == "while":
            return self._loop(it, operands[0])
        if it.opcode == "conditional":
            return self._branches(it, operands)
        return self.run(it.calls[0], tuple(operands))

    def _is_deterministic(self, it: Instruction) -> bool:
        return it.opcode != "custom-call" or category(self.program, it) in _DETERMINISTIC

    def _element(self, it: Instruction, whole: _Value) -> _Value:
        of = self.program.operands(it)[0].shape
        at = it.tuple_index or 0
        before = sum(map(_leaves, of.parts[:at]))
        size = _leaves(it.shape)
        if len(whole) != _leaves(of):  # of a start, whose type has more than the result
            return (self._all([whole]),) * size
        return whole[before : before + size]

    def _loop(self, it: Instruction, state: _Value) -> _Value:
        """Return what is certain for every iteration."""
        while True:
            after = self.run(it.calls[0], (state,))
            if len(it.calls) > 1:
                goes_on = self.run(it.calls[1], (state,))
                after = self._with(after, goes_on[0][0])
            met = self._meet_each(state, after)
            if met == state:
                return state
            state = met

    def _branches(self, it: Instruction, operands: list[_Value]) -> _Value:
        ends = [self.run(name, (operands[at + 1],)) for at, name in enumerate(it.calls)]
        value = ends[0]
        for end in ends[1:]:
            value = self._meet_each(value, end)
        return self._with(value, operands[0][0][0])

    def _collective(self, it: Instruction, kind: str, operands: list[_Value]) -> _Value:
        size = _leaves(self.program.operands(it)[0].shape) if len(it.operands) == 1 else 1
        leaves = [leaf for operand in operands for leaf in operand] if size else []
        if kind == "all-to-all" or not leaves:  # its tuple form mixes the operands
            leaves = [self._all(operands)] * len(leaves)
        return tuple((self._sent_as(it, kind, same), batch) for same, batch in leaves)

    def _sent_as(self, it: Instruction, kind: str, same: int) -> int:
        key = (kind, it.groups, it.source_target_pairs, it.channel_id is None, same)
        if key not in self._sent:
            self._sent[key] = self._send(it, kind, self.partitions[same])
        return self._sent[key]

    def _send(self, it: Instruction, kind: str, same: _Same) -> int:
        if kind == "collective-permute":
            source = {target: origin for origin, target in pairs_by_number(it)}
            return self._partition(
                same[source[device]] if device in source else -1 for device in range(self.devices)
            )
        if kind in ("send", "recv", _UNNUMBERED):
            return _DISTINCT
        groups = replica_groups(self.program, it) or (tuple(range(self.devices)),)
        result: dict[int, object] = {}
        for group in groups:
            if max(group, default=0) >= self.devices:
                return _DISTINCT
            members = tuple(same[device] for device in group)
            for place, device in enumerate(group):
                result[device] = (members, place) if kind in _BY_POSITION else members
        return self._partition(result.get(device, device) for device in range(self.devices))

    def _partition(self, labels: Iterable[object]) -> int:
        """Return the number of the partition of the devices by their labels."""
        fresh = count()
        names: dict[object, int] = {}
        same = tuple(
            names[label] if label in names else names.setdefault(label, next(fresh))
            for label in labels
        )
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

    def _all(self, operands: Iterable[_Value]) -> _Leaf:
        same, batch = _ALIKE, False
        for operand in operands:
            for own, dependent in operand:
                same, batch = self._meet(same, own), batch or dependent
        return same, batch

    def _meet_each(self, one: _Value, other: _Value) -> _Value:
        if one == other:
            return one
        return tuple(
            (self._meet(a, b), of_a or of_b)
            for (a, of_a), (b, of_b) in zip(one, other, strict=False)
        )

    def _with(self, value: _Value, same: int) -> _Value:
        return tuple((self._meet(own, same), batch) for own, batch in value)


def _leaves(shape: Shape) -> int:
    return sum(1 for _ in shape.leaves)
