"""Read a Program from a serialized HloProto or HloModuleProto.

The text reader makes the same Program of the same module. Two things differ by nature: only the
proto has the module's id, and only the proto names the instruction inside an async wrapper (text
prints `reduce-scatter-start` where the proto has an `async-start` that calls a computation).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from google.protobuf.message import DecodeError

from counterpoint.core.errors import InputError
from counterpoint.hlo import proto_parts as parts
from counterpoint.hlo.asyncs import unwrap
from counterpoint.hlo.hlo_schema import MESSAGES
from counterpoint.hlo.instruction import Computation, Instruction
from counterpoint.hlo.program import Alias, Program
from counterpoint.hlo.shape import Shape
from counterpoint.hlo.soundness import sound
from counterpoint.hlo.stack import StackTable
from counterpoint.hlo.wire_schema import Message

FINGERPRINT = "fingerprint_before_lhs"


def program_from_proto(data: bytes) -> Program:
    """The Program in a serialized HloProto or HloModuleProto."""
    module, _ = _decode(data)
    try:
        return sound(unwrap(_program(module)))
    except (DecodeError, KeyError, IndexError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"HLO module {module.name!r} is damaged",
            why=f"it refers to something that is not in it ({error!r})",
        ) from error


def module_bytes(data: bytes) -> bytes:
    """The HloModuleProto in a serialized HloProto or HloModuleProto."""
    return _decode(data)[1]


def _decode(data: bytes) -> tuple[Message, bytes]:
    """A module, wrapped in an HloProto or bare: both start with field 1, a message or a name."""
    for unwrapped in (_inner(data), data):
        try:
            module = MESSAGES["Module"].FromString(unwrapped)
        except (DecodeError, UnicodeDecodeError):
            continue
        if len(module.computations) and (module.name or module.entry_computation_name):
            return module, unwrapped
    raise InputError(
        "these bytes are not a compiled HLO module",
        why="they decode neither as HloProto nor as HloModuleProto with computations",
        next="give a *.hlo.pb file of an XLA dump, or the text of a compiled module",
    )


def _inner(data: bytes) -> bytes:
    try:
        return MESSAGES["HloProto"].FromString(data).hlo_module
    except DecodeError:
        return b""


def _program(module: Message) -> Program:
    names = {c.id: c.name for c in module.computations}
    order = {entry.key: entry.value.instruction_ids for entry in module.schedule.sequences}
    build = _builder(module, names)
    computations = {
        computation.name: _computation(computation, order.get(computation.id), build)
        for computation in module.computations
    }
    frontend = dict(parts.attributes(module.frontend_attributes))
    assigned = module.device_assignment
    return Program(
        name=module.name,
        entry=names.get(module.entry_computation_id) or module.entry_computation_name,
        computations=computations,
        program_id=module.id,
        fingerprint=frontend.get(FINGERPRINT),
        is_scheduled=bool(order),
        num_partitions=max(assigned.computation_count, 1),
        num_replicas=max(assigned.replica_count, 1),
        aliases=tuple(map(_alias, module.input_output_alias.entries)),
        stacks=_stacks(module.stack_frame_index),
    )


Build = Callable[[Message, str, int], Instruction]


def _computation(message: Message, order: Iterable[int] | None, build: Build) -> Computation:
    found = {instruction.id: instruction for instruction in message.instructions}
    scheduled = [found[number] for number in order] if order is not None else found.values()
    return Computation(
        message.name,
        tuple(build(it, message.name, index) for index, it in enumerate(scheduled)),
        root=found[message.root_id].name,
    )


def _builder(module: Message, computations: dict[int, str]) -> Build:
    names = {i.id: i.name for c in module.computations for i in c.instructions}
    shapes: dict[bytes, Shape] = {}

    def build(it: Message, computation: str, index: int) -> Instruction:
        raw = it.shape
        of_type = shapes.get(raw)
        if of_type is None:
            of_type = shapes[raw] = parts.shape(MESSAGES["Shape"].FromString(raw))
        metadata, opcode = it.metadata, it.opcode
        plain = opcode in parts.PLAIN and not it.HasField("frontend_attributes")
        return Instruction(
            it.name,
            opcode,
            of_type,
            tuple([names[number] for number in it.operand_ids]),
            tuple([computations[number] for number in it.called_computation_ids]),
            computation,
            index,
            metadata.op_name,
            metadata.source_file,
            metadata.source_line,
            metadata.stack_frame_id,
            it.backend_config.decode(errors="replace"),
            scheduling_name=metadata.scheduling_name,
            **({} if plain else parts.details(it, of_type)),
        )

    return build


def _alias(entry: Message) -> Alias:
    return Alias(
        output=tuple(entry.output_shape_index),
        parameter=entry.parameter_number,
        parameter_index=tuple(entry.parameter_shape_index),
        must=entry.kind == 2,
    )


def _stacks(table: Message) -> StackTable:
    return StackTable(
        files=tuple(table.file_names),
        functions=tuple(table.function_names),
        locations=tuple((x.file_name_id, x.function_name_id, x.line) for x in table.file_locations),
        frames=tuple((x.file_location_id, x.parent_frame_id) for x in table.stack_frames),
    )
