"""The fields of XLA's HLO protos that we read, and their message classes.

Numbers from xla/service/hlo.proto and xla/xla_data.proto, 2023 to 2026. Shapes, groups and other
parts that repeat or are seldom asked for stay bytes, so that equal ones are decoded once.
"""

from __future__ import annotations

from counterpoint.hlo.wire_schema import message_classes

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
