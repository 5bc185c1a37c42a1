"""The parts of an HLO instruction in protobuf: shapes, replica groups and rare attributes."""

from __future__ import annotations

import math
from typing import Any

from counterpoint.core.errors import InputError
from counterpoint.hlo.groups import Axis, Iota, Listed, Mesh, ReplicaGroups
from counterpoint.hlo.hlo_schema import ELEMENT_TYPES, MESSAGES
from counterpoint.hlo.instruction import Attributes, Convolution, DotDimensions
from counterpoint.hlo.shape import Shape
from counterpoint.hlo.wire_schema import Message

# Opcodes that have nothing but operands, so that nobody looks for more.
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
    """A shape of xla_data.proto."""
    dtype = ELEMENT_TYPES.get(message.element_type)
    if dtype is None:
        raise InputError(
            f"element type number {message.element_type} is unknown",
            why="the module is damaged, or from an XLA newer than this release knows",
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
    """Frontend attributes, by name."""
    return tuple(sorted((entry.key, entry.value.decode(errors="replace")) for entry in message.map))


def details(it: Message, of: Shape) -> dict[str, Any]:
    """Everything beside name, opcode, operands, shape and metadata that is not at its default."""
    found: dict[str, Any] = {
        "frontend_attributes": attributes(it.frontend_attributes),
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
    return Listed(tuple(tuple(group.replica_ids) for group in groups))


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
