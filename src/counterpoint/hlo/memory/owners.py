"""Owners: whose each byte is that a step holds at its peak.

What is decided by data flow needs no names: which values depend on parameters alone (copies and
gathered weights), which are made in the forward pass and read in the backward pass (saved), which
no product reads any more (gradients). Names, where a module has them, say where in the model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from counterpoint.hlo.category import Category, category
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.dataflow import Dataflow, leaves
from counterpoint.hlo.memory.arguments import Argument, ArgumentKind, arguments
from counterpoint.hlo.memory.plan import BlockKind, BufferPlan, BufferValue, EventKind
from counterpoint.hlo.memory.uses import ArrayAt, Path, Uses, paths, shape_at
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.op_names import named_instruction, names
from counterpoint.hlo.phase import Phase, phase
from counterpoint.hlo.provenance import provenance, user_frame

__all__ = ["Held", "Owner", "Owners"]


class Owner(StrEnum):
    """Whose bytes they are."""

    PARAMETERS = "parameters"
    OPTIMIZER = "optimizer state"
    BATCH = "batch"
    ARGUMENTS = "arguments"
    OUTPUTS = "outputs"
    CONSTANTS = "constants"
    GRADIENTS = "gradients"
    SAVED = "saved for the backward pass"
    VOCABULARY = "logits and the like"
    GATHERED = "gathered weights"
    COPIES = "copies of weights"
    FORWARD = "forward activations"
    BACKWARD = "backward activations"
    RECOMPUTED = "recomputed activations"
    UPDATE = "work of the optimizer"
    COLLECTIVES = "buffers of collectives"
    WORKSPACES = "workspaces"
    TABLES = "tables and counters"
    TEMPORARIES = "temporaries"
    FRAGMENTATION = "fragmentation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An array that is held at a moment, or several that are alike.

    `name` says what it is in the model: the argument's name, or the scope and the operation;
    `is_named` whether a policy of rematerialisation saves it by name. `layers` is how many layers'
    arrays are stacked in it.
    """

    owner: Owner
    bytes: int
    color: int
    name: str = ""
    shape: Shape | None = None
    source: str | None = None
    made_by: str = ""
    layers: int | None = None
    count: int = 1
    is_saved_by_name: bool = False


_P, _O, _B = 1, 2, 4  # what a value depends on: parameters, optimizer state, the batch

_FLOWS: Final = {
    ArgumentKind.PARAMETER: _P,
    ArgumentKind.OPTIMIZER: _O,
    ArgumentKind.BATCH: _B,
    ArgumentKind.OTHER: _B,
}
_PRODUCTS: Final = (Category.MATMUL, Category.ATTENTION, Category.CONVOLUTION)
_MOVE_WORDS: Final = (
    "convert copy copy-start reshape transpose bitcast broadcast while dynamic-update-slice"
    " dynamic-slice slice pad parameter get-tuple-element tuple"
)
_MOVES: Final = frozenset(_MOVE_WORDS.split())
_MOVING_PRIMITIVES: Final = (
    "convert_element_type copy reshape transpose broadcast_in_dim while dynamic_update_slice"
    " dynamic_slice squeeze"
)
_PRIMITIVE_MOVES: Final = frozenset(_MOVING_PRIMITIVES.split())
_BY_PHASE: Final = {
    Phase.FORWARD: Owner.FORWARD,
    Phase.BACKWARD: Owner.BACKWARD,
    Phase.REMAT: Owner.RECOMPUTED,
    Phase.OPTIMIZER: Owner.UPDATE,
}
_LATER: Final = (Phase.BACKWARD, Phase.REMAT)
_SAVING: Final = "reduce_precision"
"""What JAX writes behind a value that `checkpoint_name` names and a policy saves."""
_VOCABULARY: Final = re.compile(r"embed|logits|lm_head|vocab|wte|unembed", re.IGNORECASE)
_LEAST_VOCABULARY: Final = 4096


class _Dependence(Dataflow[int]):
    """Follows which kinds of arguments each value depends on."""

    def merge(self, one: int, other: int) -> int:
        return one | other

    def transfer(self, it: Instruction, operands: list[tuple[int, ...]]) -> tuple[int, ...]:
        whole = 0
        for operand in operands:
            for fact in operand:
                whole |= fact
        return (whole,) * leaves(it.shape)


class Owners:
    """Answers whose the values of a plan are."""

    def __init__(self, program: Program, plan: BufferPlan) -> None:
        self.program = program
        self.plan = plan
        self.uses = Uses(program)
        self.arguments = arguments(program, self.uses)
        self._depends = self._dependence()
        self._parts = self._sharing()
        products = (
            array
            for it in program.instructions
            if it.opcode != "parameter" and category(program, it) in _PRODUCTS
            for operand in program.operands(it)
            for array in self.uses.arrays_in(operand)
        )
        self._multiplied = self.uses.made_of(products)
        self._vocabulary = self._vocabulary_sizes()

    def held(self, values: Collection[int]) -> list[Held]:
        """Return everything that is held while these values of temporaries are, largest first.

        The sum is what the program takes of all memory spaces: what is not held by the values in
        the blocks of temporaries is their fragmentation.
        """
        rows = [*self._throughout(), *self._alive(values), *self._rest(values)]
        return sorted(_alike(rows), key=lambda it: -it.bytes)

    def _throughout(self) -> Iterator[Held]:
        for block in self.plan.blocks:
            if block.kind is BlockKind.ARGUMENT:
                argument = self.arguments.get((block.parameter or 0, block.parameter_index))
                yield _of_argument(argument, block.size, block.color)
            elif block.kind is BlockKind.CONSTANT:
                yield Held(owner=Owner.CONSTANTS, bytes=block.size, color=block.color)
            elif block.kind is BlockKind.OUTPUT:
                value = self.plan.values[block.assigned[0].value] if block.assigned else None
                yield Held(
                    owner=Owner.OUTPUTS,
                    bytes=block.size,
                    color=block.color,
                    name="" if value is None else value.instruction,
                )

    def _alive(self, values: Collection[int]) -> Iterator[Held]:
        for number in values:
            yield self._of_value(self.plan.values[number])

    def _rest(self, values: Collection[int]) -> Iterator[Held]:
        """Yield what the blocks of temporaries have beside the values that are alive."""
        alive: dict[int, int] = {}
        for number in values:
            value = self.plan.values[number]
            color = self._color_of(number)
            alive[color] = alive.get(color, 0) + value.size
        for block in self.plan.blocks_of(BlockKind.TEMPORARY):
            rest = block.size - alive.get(block.color, 0)
            if rest > 0:
                yield Held(owner=Owner.FRAGMENTATION, bytes=rest, color=block.color)
            alive[block.color] = max(0, alive.get(block.color, 0) - block.size)

    def _color_of(self, value: int) -> int:
        return self._block_colors.get(value, self.plan.values[value].color)

    @cached_property
    def _block_colors(self) -> Mapping[int, int]:
        return {
            one.value: block.color
            for block in self.plan.blocks_of(BlockKind.TEMPORARY)
            for one in block.assigned
        }

    def _of_value(self, value: BufferValue) -> Held:
        """Return whose a temporary is, by all values that share its bytes."""
        arrays = [
            (it, ArrayAt(it.name, part.index))
            for part in self._parts.get(value.id, (value,))
            if (it := self.program.instruction(part.instruction)) is not None
        ]
        if not arrays:
            return Held(
                owner=Owner.TEMPORARIES, bytes=value.size, color=value.color, name=value.instruction
            )
        first, at = arrays[0]
        shape = shape_at(first.shape, at.path)
        writer = self._writer(arrays)
        owner, is_saved = self._owner(arrays, writer)
        origin = self._origin(writer)
        layers = shape.dims[0] if shape and shape.dims and self._is_stacked(arrays) else None
        return Held(
            owner=owner,
            bytes=value.size,
            color=self._color_of(value.id),
            name=self._gradient_name(arrays) if owner is Owner.GRADIENTS else origin.name,
            shape=shape,
            source=origin.source,
            made_by=first.name,
            layers=layers,
            is_saved_by_name=is_saved and origin.is_named,
        )

    def _owner(
        self, arrays: Sequence[tuple[Instruction, ArrayAt]], writer: Instruction
    ) -> tuple[Owner, bool]:
        """Return the owner, and whether the array is saved for the backward pass."""
        first, at = arrays[0]
        if _is_workspace(first, at.path):
            return Owner.WORKSPACES, False
        depends = 0
        for it, array in arrays:
            depends |= self._depends_on(it, array.path)
        made_in = phase(self.program, writer)
        readers = {
            reader.name: reader for _, array in arrays for reader in self.uses.readers(array)
        }
        read_in = {phase(self.program, reader) for reader in readers.values()}
        is_read_later = not read_in.isdisjoint(_LATER)
        if not depends & _B:
            return self._of_weights(arrays, depends, writer, is_read_later=is_read_later)
        is_multiplied = any(array in self._multiplied for _, array in arrays)
        is_saved = made_in in (Phase.FORWARD, Phase.OTHER) and is_read_later
        owner = _BY_PHASE.get(made_in, Owner.TEMPORARIES)
        if made_in is Phase.BACKWARD and not is_multiplied:
            owner = Owner.GRADIENTS
        elif owner is not Owner.UPDATE and self._has_vocabulary(first, at.path):
            owner = Owner.VOCABULARY
        elif is_saved:
            owner = Owner.SAVED
        return owner, owner is Owner.SAVED

    def _of_weights(
        self,
        arrays: Sequence[tuple[Instruction, ArrayAt]],
        depends: int,
        writer: Instruction,
        *,
        is_read_later: bool,
    ) -> tuple[Owner, bool]:
        """Return the owner of a value that does not depend on the batch."""
        if not depends:
            return Owner.TABLES, False
        if depends & _O:
            return Owner.UPDATE, False
        gathers = any(self._communicates(it) for it in (*(it for it, _ in arrays), writer))
        if self._is_stacked(arrays) and is_read_later and len(arrays) > 1:
            return Owner.SAVED, True
        return (Owner.GATHERED if gathers else Owner.COPIES), False

    def _communicates(self, it: Instruction) -> bool:
        return collective(self.program, it) is not None

    def _depends_on(self, it: Instruction, path: Path) -> int:
        facts = self._depends.get(it.name)
        if not facts:
            return 0
        order = list(paths(it.shape))
        if path in order and len(order) == len(facts):
            return facts[order.index(path)]
        whole = 0
        for fact in facts:
            whole |= fact
        return whole

    def _writer(self, arrays: Sequence[tuple[Instruction, ArrayAt]]) -> Instruction:
        """Return what fills the array: the update in a loop, and not the zeros it begins with."""
        own = [it for it, _ in arrays if it.opcode not in ("while", "tuple", "parameter")]
        updates = [it for it in own if _updates(self.program, it)]
        if updates:
            return updates[0]
        works = [it for it in own if it.opcode not in ("broadcast", "constant", "copy")]
        return (works or own or [arrays[0][0]])[0]

    def _is_stacked(self, arrays: Sequence[tuple[Instruction, ArrayAt]]) -> bool:
        """Return whether a loop writes the array part by part."""
        return any(_updates(self.program, it) for it, _ in arrays)

    def _origin(self, writer: Instruction) -> _Origin:
        """Return where in the model a value comes from: of an update, the part that it writes."""
        source = _written_part(self.program, writer)
        for _ in range(_DEEPEST):
            named = named_instruction(self.program, source) or source
            last = names(named.op_name)[0].rpartition("/")[2]
            if last == _SAVING:
                return self._described(named, is_named=True)
            if last and last not in _PRIMITIVE_MOVES and source.opcode not in _MOVES:
                return self._described(named, is_named=False)
            operands = self.program.operands(source)
            if not operands:
                break
            source = operands[0]
        described = self._described(writer, is_named=False)
        if source.opcode == "parameter" and source.computation != self.program.entry:
            return replace(described, name=_of_carry(described.name))  # it enters from outside
        return described

    def _described(self, it: Instruction, *, is_named: bool) -> _Origin:
        origin = provenance(self.program, it)
        words = [origin.scope, "" if is_named else origin.primitive]
        frame = user_frame(origin.stack)
        source = f"{frame.file}:{frame.line}" if frame else origin.source
        return _Origin("/".join(filter(None, words)), source, is_named)

    def _gradient_name(self, arrays: Sequence[tuple[Instruction, ArrayAt]]) -> str:
        """Return the argument that an optimizer's instruction reads beside the gradient."""
        first, at = arrays[0]
        shape = shape_at(first.shape, at.path)
        for _, array in arrays:
            for reader in self.uses.readers(array):
                for argument in self._read_by.get(reader.name, ()):
                    if shape and argument.shape.dims == shape.dims and _is_weight(argument):
                        return argument.name
        return provenance(self.program, self._writer(arrays)).scope

    @cached_property
    def _read_by(self) -> Mapping[str, list[Argument]]:
        """The arguments that each instruction reads."""
        parameters = {
            it.parameter_number or 0: it.name
            for it in self.program.computations[self.program.entry].instructions
            if it.opcode == "parameter"
        }
        read: dict[str, list[Argument]] = {}
        for argument in self.arguments.values():
            array = ArrayAt(parameters[argument.number], argument.path)
            for reader in self.uses.readers(array):
                read.setdefault(reader.name, []).append(argument)
        return read

    def _has_vocabulary(self, it: Instruction, path: Path) -> bool:
        shape = shape_at(it.shape, path)
        return shape is not None and not self._vocabulary.isdisjoint(shape.dims)

    def _vocabulary_sizes(self) -> frozenset[int]:
        """Return the sizes of a vocabulary's dimension, whole and cut over devices."""
        sizes: set[int] = set()
        for argument in self.arguments.values():
            if argument.kind is ArgumentKind.PARAMETER and _VOCABULARY.search(argument.name):
                sizes.add(max(argument.shape.dims, default=0))
        for it in self.program.instructions:
            if it.opcode == "gather":
                table = self.program.operands(it)[0]
                if len(table.shape.dims) == 2 and self._flat(table) & _P:
                    sizes.add(table.shape.dims[0])
        whole = {size for size in sizes if size >= _LEAST_VOCABULARY}
        return frozenset(whole)

    def _flat(self, it: Instruction) -> int:
        whole = 0
        for fact in self._depends.get(it.name, ()):
            whole |= fact
        return whole

    def _dependence(self) -> Mapping[str, tuple[int, ...]]:
        flow = _Dependence(self.program)
        entry = self.program.computations[self.program.entry]
        ordered = sorted(
            (it for it in entry.instructions if it.opcode == "parameter"),
            key=lambda it: it.parameter_number or 0,
        )
        given = tuple(
            tuple(
                _FLOWS.get(self.arguments[it.parameter_number or 0, path].kind, 0)
                for path in paths(it.shape)
            )
            for it in ordered
        )
        flow.run(self.program.entry, given)
        return flow.values

    def _sharing(self) -> Mapping[int, list[BufferValue]]:
        """Return the values that share bytes, by the one that is counted."""
        canonical: dict[int, int] = {}
        parts: dict[int, list[BufferValue]] = {}
        for trace in self.plan.traces:
            for event in trace:
                if event.kind is EventKind.ALLOCATE:
                    parts.setdefault(event.value, [self.plan.values[event.value]])
                elif event.kind is EventKind.SHARE:
                    first = canonical.get(event.shared, event.shared)
                    canonical[event.value] = first
                    parts.setdefault(first, [self.plan.values[first]]).append(
                        self.plan.values[event.value]
                    )
        return parts


_DEEPEST: Final = 24
_CARRIED: Final = "input of each turn of the loop"


def _of_carry(name: str) -> str:
    scope, _, _ = name.rpartition("/")
    return f"{scope}/{_CARRIED}" if scope else _CARRIED


@dataclass(frozen=True, slots=True)
class _Origin:
    name: str
    source: str | None
    is_named: bool


def _is_weight(argument: Argument) -> bool:
    return argument.kind is ArgumentKind.PARAMETER


def _of_argument(argument: Argument | None, size: int, color: int) -> Held:
    if argument is None:
        return Held(owner=Owner.ARGUMENTS, bytes=size, color=color)
    owner = {
        ArgumentKind.PARAMETER: Owner.PARAMETERS,
        ArgumentKind.OPTIMIZER: Owner.OPTIMIZER,
        ArgumentKind.BATCH: Owner.BATCH,
        ArgumentKind.COUNTER: Owner.TABLES,
    }.get(argument.kind, Owner.ARGUMENTS)
    return Held(owner=owner, bytes=size, color=color, name=argument.name, shape=argument.shape)


def _is_workspace(it: Instruction, path: Path) -> bool:
    if it.opcode != "custom-call" or not path or path[0] == 0:
        return False
    shape = shape_at(it.shape, path)
    return shape is not None and shape.dtype in ("u8", "s8")


def _updates(program: Program, it: Instruction) -> bool:
    """Return whether an instruction writes a part of an array in place."""
    if it.opcode == "dynamic-update-slice":
        return True
    if it.opcode != "fusion" or not it.calls:
        return False
    root = program.root(it.calls[0])
    inside = [root] if root is None or root.opcode != "tuple" else program.operands(root)
    return any(part is not None and _is_update(program, part) for part in inside)


def _is_update(program: Program, it: Instruction) -> bool:
    for _ in range(4):
        if it.opcode == "dynamic-update-slice":
            return True
        if it.opcode not in ("bitcast", "convert", "copy", "reshape"):
            return False
        it = program.operands(it)[0]
    return False


def _written_part(program: Program, writer: Instruction) -> Instruction:
    """Return what an update writes; of anything else, itself."""
    update = writer
    if writer.opcode == "fusion" and writer.calls:
        inside = program.computations[writer.calls[0]].instructions
        update = next((it for it in inside if it.opcode == "dynamic-update-slice"), writer)
    if update.opcode != "dynamic-update-slice":
        return writer
    return program.operands(update)[1]


def _alike(rows: Iterable[Held]) -> Iterator[Held]:
    """Yield rows with those that differ in nothing but their instructions as one."""
    groups: dict[tuple[object, ...], list[Held]] = {}
    for row in rows:
        key = (row.owner, row.color, _layer_free(row.name), str(row.shape), row.source, row.layers)
        groups.setdefault(key, []).append(row)
    for members in groups.values():
        first = members[0]
        if len(members) == 1:
            yield first
            continue
        yield Held(
            owner=first.owner,
            bytes=sum(row.bytes for row in members),
            color=first.color,
            name=_layer_free(first.name),
            shape=first.shape,
            source=first.source,
            made_by=first.made_by,
            layers=first.layers,
            count=len(members),
            is_saved_by_name=all(row.is_saved_by_name for row in members),
        )


_LAYER: Final = re.compile(r"(?<=[/_\[.'\"])\d+(?=[/_\].'\"]|$)")


def _layer_free(name: str) -> str:
    """Return a name with `*` for the numbers of layers."""
    return _LAYER.sub("*", name)
