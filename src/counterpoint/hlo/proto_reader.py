"""Reads a Program from a serialized HloProto or HloModuleProto.

The text reader yields the same Program for the same module, with two inherent differences: only the
proto has the module's id, and only the proto names the instruction inside an async wrapper (text
prints `reduce-scatter-start` where the proto has an `async-start` that calls a computation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from itertools import chain, repeat
from sys import intern
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from google.protobuf.message import DecodeError

from counterpoint.core import InputError
from counterpoint.hlo.messages import MESSAGES
from counterpoint.hlo.model.groups import Axis, Iota, ListedGroups, Mesh, ReplicaGroups
from counterpoint.hlo.model.instruction import (
    WINDOWED,
    Attributes,
    Computation,
    Convolution,
    DotDimensions,
    Draft,
    Indexing,
    Instruction,
    Shape,
    WindowDimension,
    draft_class,
    finished,
)
from counterpoint.hlo.model.program import Alias, Program
from counterpoint.hlo.model.sharding import Sharding, on_mesh, tiled
from counterpoint.hlo.model.stack import StackTable
from counterpoint.hlo.model.validation import validate_program
from counterpoint.hlo.schedule import with_async_collectives, without_async_wrappers
from counterpoint.hlo.wire_schema import Message

# xla.PrimitiveType by number, in the spelling of HLO text.
ELEMENT_TYPES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64",
    10: "f16", 11: "f32", 12: "f64", 13: "tuple", 14: "opaque", 15: "c64", 16: "bf16",
    17: "token", 18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 21: "s4", 22: "u4",
    23: "f8e4m3b11fnuz", 24: "f8e5m2fnuz", 25: "f8e4m3fnuz", 26: "s2", 27: "u2", 28: "f8e4m3",
    29: "f8e3m4", 30: "s1", 31: "u1", 32: "f4e2m1fn", 33: "f8e8m0fnu", 34: "buffer",
    35: "f6e3m2fn", 36: "f6e2m3fn",
}  # fmt: skip


# Opcodes that have only operands, so that reading of anything else can be skipped.
_PLAIN_WORDS = (
    "abs add and bitcast bitcast-convert ceil clamp convert copy cosine divide "
    "dynamic-slice dynamic-update-slice exponential exponential-minus-one floor is-finite log "
    "log-plus-one logistic maximum minimum multiply negate not or power real remainder reshape "
    "rsqrt select shift-left shift-right-arithmetic shift-right-logical sign sine sqrt subtract "
    "tanh tuple xor"
)
# Of these, dimensions are all that is read.
_DIMENSIONAL_WORDS = "broadcast concatenate iota reverse transpose"
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
    dims, order = tuple(message.dimensions), tuple(layout.minor_to_major)
    if _UNBOUNDED in dims:
        dims, order = tuple(dim for dim in dims if dim != _UNBOUNDED), ()
    parts = tuple(shape(part) for part in message.tuple_shapes)
    try:
        return Shape(dtype, dims, parts, order, layout.memory_space).sound()
    except ValueError as error:
        raise InputError(str(error), why="the module is damaged") from None


_UNBOUNDED: Final = -(2**63)
"""The size of a dimension that is known when a program runs."""


def attributes(message: Message) -> Attributes:
    """Return frontend attributes, sorted by name."""
    return tuple(sorted((entry.key, entry.value.decode(errors="replace")) for entry in message.map))


def _number(it: Message, made: Draft) -> None:
    made.parameter_number = it.parameter_number
    if it.HasField("sharding"):
        made.sharding = _sharding(it.sharding)


def _element(it: Message, made: Draft) -> None:
    made.tuple_index = it.tuple_index


def _constant(it: Message, made: Draft) -> None:
    made.literal = _literal(it.literal, made.shape)


def _dimensions(it: Message, made: Draft) -> None:
    made.dimensions = tuple(it.dimensions)


def _everything(it: Message, made: Draft) -> None:
    """Read all fields of which an instruction has any, except those that every one has."""
    made.channel_id = it.channel_id if it.channel_id > 0 else None
    made.custom_call_target = it.custom_call_target
    made.fusion_kind = it.fusion_kind
    made.comparison = it.comparison_direction
    made.dimensions = tuple(it.dimensions)
    made.is_host_transfer = it.is_host_transfer
    if made.opcode.startswith(_COLLECTIVE_OPCODES):
        made.use_global_device_ids = it.use_global_device_ids
        made.groups = _groups(it)
        made.source_target_pairs = tuple((p.source, p.target) for p in it.source_target_pairs)
    made.indexing = _indexing(it, made.opcode)
    if made.opcode in WINDOWED:
        made.window = tuple(max(one.size, 1) for one in it.window.dimensions)
    made.fft_length = tuple(it.fft_length)
    if it.HasField("dot_dimension_numbers"):
        made.dot = _dot(it.dot_dimension_numbers)
    if it.HasField("convolution_dimension_numbers"):
        made.convolution = _convolution(it)


def _nothing(it: Message, made: Draft) -> None:
    del it, made


_DETAILS: Mapping[str, Callable[[Message, Draft], None]] = {
    **dict.fromkeys(_PLAIN_WORDS.split(), _nothing),
    **dict.fromkeys(_DIMENSIONAL_WORDS.split(), _dimensions),
    "parameter": _number,
    "get-tuple-element": _element,
    "constant": _constant,
}
"""What to read of an instruction, by opcode; of all others everything. These call nothing."""


def _literal(data: bytes, of: Shape) -> int | None:
    field = _INTEGERS.get(of.dtype)
    if of.dims or field is None:
        return None
    values = getattr(MESSAGES["Literal"].FromString(data), field)
    return int(values[0]) if values else None


def _indexing(it: Message, opcode: str) -> Indexing | None:
    if opcode == "gather":
        numbers = it.gather_dimension_numbers
        dims = numbers.offset_dims
        left_out = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    elif opcode == "scatter":
        numbers = it.scatter_dimension_numbers
        dims = numbers.update_window_dims
        left_out = (*numbers.inserted_window_dims, *numbers.input_batching_dims)
    else:
        return None
    return Indexing(tuple(dims), left_out, it.indices_are_sorted, it.unique_indices)


def _dot(message: Message) -> DotDimensions:
    return DotDimensions(
        tuple(message.lhs_contracting_dimensions),
        tuple(message.rhs_contracting_dimensions),
        tuple(message.lhs_batch_dimensions),
        tuple(message.rhs_batch_dimensions),
    )


def _convolution(it: Message) -> Convolution:
    numbers = it.convolution_dimension_numbers
    return Convolution(
        window=tuple(
            WindowDimension(
                size=one.size,
                stride=max(one.stride, 1),
                padding_low=one.padding_low,
                window_dilation=max(one.window_dilation, 1),
                base_dilation=max(one.base_dilation, 1),
                base=base,
                result=result,
            )
            for one, base, result in zip(
                it.window.dimensions,
                chain(numbers.input_spatial_dimensions, repeat(None)),
                chain(numbers.output_spatial_dimensions, repeat(None)),
                strict=False,
            )
        ),
        kernel_output_feature=numbers.kernel_output_feature_dimension,
        feature_groups=max(it.feature_group_count, 1),
        batch_groups=max(it.batch_group_count, 1),
    )


def _groups(it: Message) -> ReplicaGroups | None:
    if it.HasField("mesh_axes_replica_group_list"):
        return _mesh(it.mesh_axes_replica_group_list.mesh, it.mesh_axes_replica_group_list.axes)
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


def _mesh(message: Message, axes: Iterable[Message]) -> Mesh:
    return Mesh(
        sizes=tuple(axis.size for axis in message.axes),
        axes=_axes(axes),
        devices=_mesh_devices(message),
    )


def _axes(references: Iterable[Message]) -> tuple[Axis, ...]:
    return tuple(
        Axis(axis.mesh_axis_index, axis.sub_axis_info.pre_size, axis.sub_axis_info.size)
        for axis in references
    )


_REPLICATED: Final = 0
_TILED: Final = 3


def _sharding(message: Message) -> Sharding | None:
    """Return the sharding; None for kinds that do not say which devices hold the same."""
    if message.HasField("named_sharding"):
        named = message.named_sharding
        on_one_device = not named.mesh.axes and named.mesh.device_ids
        if named.unreduced_axes or named.manual_axes or on_one_device:
            return None
        return on_mesh(_mesh(named.mesh, ()), [_axes(one.axes) for one in named.dim_shardings])
    if message.type != _TILED or message.last_tile_dims:
        return Sharding() if message.type == _REPLICATED else None
    return tiled(
        message.tile_assignment_dimensions,
        message.tile_assignment_devices,
        message.iota_reshape_dims,
        message.iota_transpose_perm,
        replicated=message.replicate_on_last_tile_dim,
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
        return validate_program(with_async_collectives(without_async_wrappers(_program(module))))
    except (DecodeError, KeyError, IndexError, ValueError, RecursionError) as error:
        raise InputError(
            f"HLO module {module.name!r} is damaged",
            why=f"it refers to a missing part ({error!r})",
        ) from error


def module_bytes(data: bytes) -> bytes:
    """Return the HloModuleProto in a serialized HloProto or HloModuleProto."""
    return _decode(data)[1]


def read_part(data: bytes) -> bytes:
    """Return the part of a module that is read, or all of the data if it is no module."""
    try:
        module, _ = _decode(data)
    except InputError:
        return data
    module.DiscardUnknownFields()
    if not _device_order(module.device_assignment):  # then their numbers do not matter
        module.device_assignment.ClearField("computation_devices")
    return module.SerializeToString(deterministic=True)


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
    heads = [MESSAGES["Head"].FromString(computation) for computation in module.computations]
    names = {head.id: head.name for head in heads}
    order = {entry.key: entry.value for entry in module.schedule.sequences}
    parts = _Parts(names)
    alike = sha256(repr(names).encode())
    computations: dict[str, Computation] = {}
    for head, data in zip(heads, module.computations, strict=True):
        scheduled = order.get(head.id)
        digest = alike.copy()
        digest.update(f"{len(data)} {scheduled is None}".encode() + data + (scheduled or b""))
        decoded = _IN_USE.get(digest.digest())
        if decoded is None:
            decoded = _IN_USE[digest.digest()] = parts.computation(data, scheduled)
        computations[head.name] = decoded
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
        device_order=_device_order(assigned),
        aliases=tuple(map(_alias, module.input_output_alias.entries)),
        shardings=tuple(map(_sharding, module.spmd_parameters_shardings)),
        stacks=_stacks(module.stack_frame_index),
    )


def _device_order(assigned: Message) -> tuple[int, ...]:
    """Return the device of each partition of each replica; () if they are in order, or unknown."""
    partitions = [each.replica_device_ids for each in assigned.computation_devices]
    if len({len(ids) for ids in partitions}) != 1:
        return ()
    order = [int(ids[replica]) for replica in range(len(partitions[0])) for ids in partitions]
    in_order = list(range(len(order)))
    return tuple(order) if order != in_order and sorted(order) == in_order else ()


_IN_USE: Final = WeakValueDictionary[bytes, Computation]()
"""Computations of all programs, by the digest of all that they are made of.

Ranks that were tuned separately have programs that differ in few computations.
"""

_Metadata = tuple[str, str, int, int, str]


_Part = TypeVar("_Part")


class _Decoded(dict[bytes, _Part]):
    """Decodes what it is asked for, once."""

    def __init__(self, decode: Callable[[bytes], _Part]) -> None:
        super().__init__()
        self._decode = decode

    def __missing__(self, data: bytes) -> _Part:
        part = self[data] = self._decode(data)
        return part


class _Parts:
    """The parts that instructions of a module share: each distinct part is decoded once."""

    def __init__(self, computations: Mapping[int, str]) -> None:
        self.computations = computations
        self.new_draft = draft_class()
        self.shapes = _Decoded(_shape)
        self.metadata = _Decoded(_metadata)
        self.configs = _Decoded(_text)
        self.attributes = _Decoded(_attributes)

    def computation(self, data: bytes, scheduled: bytes | None) -> Computation:
        message = MESSAGES["Computation"].FromString(data)
        by_id = {instruction.id: instruction for instruction in message.instructions}
        names = {number: instruction.name for number, instruction in by_id.items()}
        name = message.name
        order = by_id if scheduled is None else _sequence(scheduled)
        instructions = [
            self._instruction(by_id[number], names, name, index)
            for index, number in enumerate(order)
        ]
        return Computation(name, tuple(instructions), root=names[message.root_id])

    def _instruction(
        self, it: Message, names: Mapping[int, str], computation: str, index: int
    ) -> Instruction:
        opcode = intern(it.opcode)
        read = _DETAILS.get(opcode)
        calls = () if read else tuple([self.computations[i] for i in it.called_computation_ids])
        op_name, file, line, frame, scheduling_name = self.metadata[it.metadata]
        made = self.new_draft(
            names[it.id],
            opcode,
            self.shapes[it.shape],
            tuple([names[number] for number in it.operand_ids]),
            calls,
            computation,
            index,
            op_name,
            file,
            line,
            frame,
            self.configs[it.backend_config],
            self.attributes[it.frontend_attributes],
            scheduling_name=scheduling_name,
        )
        (read or _everything)(it, made)
        return finished(made)


def _sequence(data: bytes) -> Iterable[int]:
    return MESSAGES["Sequence"].FromString(data).instruction_ids


def _shape(data: bytes) -> Shape:
    return shape(MESSAGES["Shape"].FromString(data))


def _metadata(data: bytes) -> _Metadata:
    it = MESSAGES["Metadata"].FromString(data)
    return it.op_name, it.source_file, it.source_line, it.stack_frame_id, it.scheduling_name


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _attributes(data: bytes) -> Attributes:
    return attributes(MESSAGES["Attributes"].FromString(data))


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
