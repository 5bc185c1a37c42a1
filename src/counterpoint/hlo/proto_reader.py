"""Reads a Program from a serialized HloProto or HloModuleProto.

The text reader yields the same Program for the same module, with two inherent differences: only the
proto has the module's id, and only the proto names the instruction inside an async wrapper (text
prints `reduce-scatter-start` where the proto has an `async-start` that calls a computation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf.message import DecodeError

from counterpoint.core import InputError
from counterpoint.hlo.model.groups import Axis, Iota, ListedGroups, Mesh, ReplicaGroups
from counterpoint.hlo.model.instruction import (
    Attributes,
    Computation,
    Convolution,
    DotDimensions,
    Instruction,
    Shape,
)
from counterpoint.hlo.model.program import Alias, Program, StackTable, validate_program
from counterpoint.hlo.schedule import without_async_wrappers
from counterpoint.hlo.wire_schema import Message, message_classes

# Field numbers are from xla/service/hlo.proto and xla/xla_data.proto, 2023 to 2026. Shapes, groups
# and other parts that repeat or are rarely needed stay bytes, so that equal ones are decoded once.
MESSAGES = message_classes(
    "counterpoint.hlo",
    """
    HloProto
      1 hlo_module bytes
    Module
      1 name string
      2 entry_computation_name string
      3 computations Computation*
      5 id int64
      6 entry_computation_id int64
      7 schedule Schedule
      8 input_output_alias Aliases
      15 device_assignment DeviceAssignment
      17 stack_frame_index Stacks
      19 frontend_attributes Attributes
    Outline
      1 name string
      2 entry_computation_name string
      3 computations bytes*
      5 id int64
      6 entry_computation_id int64
      7 schedule bytes
      8 input_output_alias bytes
      15 device_assignment DeviceAssignment
      17 stack_frame_index bytes
      19 frontend_attributes bytes
    Computation
      1 name string
      2 instructions Instruction*
      5 id int64
      6 root_id int64
    Instruction
      1 name string
      2 opcode string
      3 shape bytes
      7 metadata Metadata
      8 literal bytes
      9 parameter_number int64
      11 fusion_kind string
      13 tuple_index int64
      14 dimensions int64*
      15 window Window
      16 convolution_dimension_numbers ConvolutionDimensions
      26 channel_id int64
      28 custom_call_target string
      30 dot_dimension_numbers DotDimensions
      35 id int64
      36 operand_ids int64*
      38 called_computation_ids int64*
      43 backend_config bytes
      47 is_host_transfer bool
      49 replica_groups ReplicaGroup*
      50 feature_group_count int64
      52 source_target_pairs Pair*
      58 batch_group_count int64
      63 comparison_direction string
      68 frontend_attributes Attributes
      71 use_global_device_ids bool
      87 collective_device_list DeviceList
      92 iota_collective_device_list Iota
      93 mesh_axes_replica_group_list MeshGroups
    Metadata
      2 op_name string
      3 source_file string
      4 source_line int32
      15 stack_frame_id int32
      16 scheduling_name string
    Shape
      2 element_type int32
      3 dimensions int64*
      4 tuple_shapes Shape*
      5 layout Layout
    Layout
      1 minor_to_major int64*
      8 memory_space int64
    Literal
      2 preds bool*
      3 u8s bytes
      4 s32s int32*
      5 s64s int64*
      6 u32s uint32*
      7 u64s uint64*
      15 s8s bytes
    Window
      1 dimensions WindowDimension*
    WindowDimension
      1 size int64
    ConvolutionDimensions
      4 kernel_output_feature_dimension int64
    DotDimensions
      1 lhs_contracting_dimensions int64*
      2 rhs_contracting_dimensions int64*
      3 lhs_batch_dimensions int64*
      4 rhs_batch_dimensions int64*
    Attributes
      1 map Entry*
    Entry
      1 key string
      2 value bytes
    ReplicaGroup
      1 replica_ids int64*
    Pair
      1 source int64
      2 target int64
    DeviceList
      1 replica_groups ReplicaGroup*
      2 iota_replica_group_list Iota
    Iota
      1 num_replica_groups int64
      2 num_devices_per_group int64
      3 iota_reshape_dims int64*
      4 iota_transpose_perm int32*
    MeshGroups
      1 mesh Mesh
      2 axes AxisRef*
    Mesh
      1 axes MeshAxis*
      2 device_ids int64*
      3 iota_transform IotaTransform
    MeshAxis
      1 name string
      2 size int64
    IotaTransform
      1 reshape_dims int64*
      2 transpose_perm int64*
    AxisRef
      1 mesh_axis_index int64
      2 sub_axis_info SubAxis
    SubAxis
      1 pre_size int64
      2 size int64
    Schedule
      1 sequences SequenceEntry*
    SequenceEntry
      1 key int64
      2 value Sequence
    Sequence
      1 instruction_ids int64*
    Aliases
      1 entries AliasEntry*
    AliasEntry
      1 output_shape_index int64*
      2 parameter_number int64
      3 parameter_shape_index int64*
      4 kind int32
    DeviceAssignment
      1 replica_count int32
      2 computation_count int32
    Stacks
      1 file_names string*
      2 function_names string*
      3 file_locations FileLocation*
      4 stack_frames StackFrame*
    FileLocation
      1 file_name_id int32
      2 function_name_id int32
      3 line int32
    StackFrame
      1 file_location_id int32
      2 parent_frame_id int32
    """,
)

# xla.PrimitiveType by number, in the spelling of HLO text.
ELEMENT_TYPES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64",
    10: "f16", 11: "f32", 12: "f64", 13: "tuple", 14: "opaque", 15: "c64", 16: "bf16",
    17: "token", 18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 21: "s4", 22: "u4",
    23: "f8e4m3b11fnuz", 24: "f8e5m2fnuz", 25: "f8e4m3fnuz", 26: "s2", 27: "u2", 28: "f8e4m3",
    29: "f8e3m4", 30: "s1", 31: "u1", 32: "f4e2m1fn", 33: "f8e8m0fnu", 34: "buffer",
    35: "f6e3m2fn", 36: "f6e2m3fn",
}  # fmt: skip


# Opcodes that have only operands, so that reading of details can be skipped.
_PLAIN_WORDS = (
    "abs add and bitcast bitcast-convert ceil clamp convert copy cosine divide "
    "dynamic-slice dynamic-update-slice exponential exponential-minus-one floor is-finite log "
    "log-plus-one logistic maximum minimum multiply negate not or power real remainder reshape "
    "rsqrt select shift-left shift-right-arithmetic shift-right-logical sign sine sqrt subtract "
    "tanh tuple xor"
)
PLAIN = frozenset(_PLAIN_WORDS.split())
_COLLECTIVE_OPCODES = ("all-", "reduce-scatter", "collective-", "ragged-all", "async-", "partition")
_INTEGERS = {
    "s32": "s32s", "s64": "s64s", "u32": "u32s", "u64": "u64s", "pred": "preds",
}  # fmt: skip


def shape(message: Message) -> Shape:
    """Convert a shape of xla_data.proto."""
    dtype = ELEMENT_TYPES.get(message.element_type)
    if dtype is None:
        raise InputError(
            f"element type number {message.element_type} is unknown",
            why="the module is damaged, or written by a newer XLA than this release supports",
        )
    layout = message.layout
    return Shape(
        dtype,
        tuple(message.dimensions),
        tuple(shape(part) for part in message.tuple_shapes),
        tuple(layout.minor_to_major),
        layout.memory_space,
    )


def attributes(message: Message) -> Attributes:
    """Return frontend attributes, sorted by name."""
    return tuple(sorted((entry.key, entry.value.decode(errors="replace")) for entry in message.map))


def details(it: Message, of: Shape) -> dict[str, Any]:
    """Return all fields except name, opcode, operands, shape and metadata that are not defaults."""
    found: dict[str, Any] = {
        "frontend_attributes": (
            attributes(it.frontend_attributes) if it.HasField("frontend_attributes") else ()
        ),
        "channel_id": it.channel_id if it.channel_id > 0 else None,
        "custom_call_target": it.custom_call_target,
        "fusion_kind": it.fusion_kind,
        "comparison": it.comparison_direction,
        "dimensions": tuple(it.dimensions),
        "is_host_transfer": it.is_host_transfer,
    }
    if it.opcode == "parameter":
        found["parameter_number"] = it.parameter_number
    elif it.opcode == "get-tuple-element":
        found["tuple_index"] = it.tuple_index
    elif it.opcode == "constant":
        found["literal"] = _literal(it.literal, of)
    elif it.opcode.startswith(_COLLECTIVE_OPCODES):
        found["use_global_device_ids"] = it.use_global_device_ids
        found["groups"] = _groups(it)
        found["source_target_pairs"] = tuple((p.source, p.target) for p in it.source_target_pairs)
    if it.HasField("dot_dimension_numbers"):
        found["dot"] = _dot(it.dot_dimension_numbers)
    if it.HasField("convolution_dimension_numbers"):
        found["convolution"] = _convolution(it)
    return found


def _literal(data: bytes, of: Shape) -> int | None:
    field = _INTEGERS.get(of.dtype)
    if of.dims or field is None:
        return None
    values = getattr(MESSAGES["Literal"].FromString(data), field)
    return int(values[0]) if values else None


def _dot(message: Message) -> DotDimensions:
    return DotDimensions(
        tuple(message.lhs_contracting_dimensions),
        tuple(message.rhs_contracting_dimensions),
        tuple(message.lhs_batch_dimensions),
        tuple(message.rhs_batch_dimensions),
    )


def _convolution(it: Message) -> Convolution:
    return Convolution(
        window=tuple(dimension.size for dimension in it.window.dimensions),
        kernel_output_feature=it.convolution_dimension_numbers.kernel_output_feature_dimension,
        feature_groups=max(it.feature_group_count, 1),
        batch_groups=max(it.batch_group_count, 1),
    )


def _groups(it: Message) -> ReplicaGroups | None:
    if it.HasField("mesh_axes_replica_group_list"):
        return _mesh(it.mesh_axes_replica_group_list)
    if it.HasField("iota_collective_device_list"):
        return _iota(it.iota_collective_device_list)
    listed = it.collective_device_list
    if listed.HasField("iota_replica_group_list"):
        return _iota(listed.iota_replica_group_list)
    groups = listed.replica_groups or it.replica_groups
    return ListedGroups(tuple(tuple(group.replica_ids) for group in groups))


def _iota(message: Message) -> Iota:
    return Iota(
        message.num_replica_groups,
        message.num_devices_per_group,
        tuple(message.iota_reshape_dims),
        tuple(message.iota_transpose_perm),
    )


def _mesh(message: Message) -> Mesh:
    return Mesh(
        sizes=tuple(axis.size for axis in message.mesh.axes),
        axes=tuple(
            Axis(axis.mesh_axis_index, axis.sub_axis_info.pre_size, axis.sub_axis_info.size)
            for axis in message.axes
        ),
        devices=_mesh_devices(message.mesh),
    )


def _mesh_devices(mesh: Message) -> tuple[int, ...] | Iota:
    transform = mesh.iota_transform
    if not transform.reshape_dims:
        return tuple(mesh.device_ids)
    reshape = tuple(transform.reshape_dims)
    return Iota(1, math.prod(reshape), reshape, tuple(transform.transpose_perm))


FINGERPRINT = "fingerprint_before_lhs"


def program_from_proto(data: bytes) -> Program:
    """Return the Program in a serialized HloProto or HloModuleProto."""
    module, _ = _decode(data)
    try:
        return validate_program(without_async_wrappers(_program(module)))
    except (DecodeError, KeyError, IndexError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"HLO module {module.name!r} is damaged",
            why=f"it refers to a missing part ({error!r})",
        ) from error


def module_bytes(data: bytes) -> bytes:
    """Return the HloModuleProto in a serialized HloProto or HloModuleProto."""
    return _decode(data)[1]


def read_part(data: bytes) -> bytes:
    """Return the part of a module that is read, or all of the data if it is no module."""
    for unwrapped in (_inner(data), data):
        try:
            outline = MESSAGES["Outline"].FromString(unwrapped)
        except (DecodeError, UnicodeDecodeError):
            continue
        if len(outline.computations) and (outline.name or outline.entry_computation_name):
            outline.DiscardUnknownFields()
            return outline.SerializeToString(deterministic=True)
    return data


def _decode(data: bytes) -> tuple[Message, bytes]:
    """Decode a module, in an HloProto or bare: both start with field 1, a message or a name."""
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
        next="pass a *.hlo.pb file of an XLA dump, or the text of a compiled module",
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
    frontend = dict(attributes(module.frontend_attributes))
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
        tuple(
            build(message_of_instruction, message.name, index)
            for index, message_of_instruction in enumerate(scheduled)
        ),
        root=found[message.root_id].name,
    )


def _builder(module: Message, computations: dict[int, str]) -> Build:
    names = {i.id: i.name for c in module.computations for i in c.instructions}
    shapes: dict[bytes, Shape] = {}

    def build(it: Message, computation: str, index: int) -> Instruction:
        raw = it.shape
        of_type = shapes.get(raw)
        if of_type is None:
            of_type = shapes[raw] = shape(MESSAGES["Shape"].FromString(raw))
        metadata, opcode = it.metadata, it.opcode
        plain = opcode in PLAIN and not it.HasField("frontend_attributes")
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
            **({} if plain else details(it, of_type)),
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
