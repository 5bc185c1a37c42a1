"""The messages of an HloProto, as far as this package reads them.

Field numbers are from xla/service/hlo.proto and xla/xla_data.proto, 2023 to 2026. Shapes, groups
and other parts that repeat or are rarely needed stay bytes, so that equal ones are decoded once.
A Head is a Computation of which only the name and the id are decoded.
"""

from __future__ import annotations

from typing import Final

from counterpoint.hlo.wire_schema import message_classes

MESSAGES: Final = message_classes(
    "counterpoint.hlo",
    """
    HloProto
      1 hlo_module bytes
    Module
      1 name string
      2 entry_computation_name string
      3 computations bytes*
      5 id int64
      6 entry_computation_id int64
      7 schedule Schedule
      8 input_output_alias Aliases
      14 spmd_parameters_shardings Sharding*
      15 device_assignment DeviceAssignment
      17 stack_frame_index Stacks
      19 frontend_attributes Attributes
    Head
      1 name string
      5 id int64
    Computation
      1 name string
      2 instructions Instruction*
      5 id int64
      6 root_id int64
    Instruction
      1 name string
      2 opcode string
      3 shape bytes
      7 metadata bytes
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
      32 fft_length int64*
      33 gather_dimension_numbers GatherDimensions
      35 id int64
      36 operand_ids int64*
      38 called_computation_ids int64*
      40 sharding Sharding
      43 backend_config bytes
      47 is_host_transfer bool
      48 scatter_dimension_numbers ScatterDimensions
      49 replica_groups ReplicaGroup*
      50 feature_group_count int64
      52 source_target_pairs Pair*
      58 batch_group_count int64
      63 comparison_direction string
      67 indices_are_sorted bool
      68 frontend_attributes bytes
      69 unique_indices bool
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
      2 stride int64
      3 padding_low int64
      5 window_dilation int64
      6 base_dilation int64
    ConvolutionDimensions
      4 kernel_output_feature_dimension int64
      11 input_spatial_dimensions int64*
      12 output_spatial_dimensions int64*
    GatherDimensions
      1 offset_dims int64*
      2 collapsed_slice_dims int64*
      5 operand_batching_dims int64*
    ScatterDimensions
      1 update_window_dims int64*
      2 inserted_window_dims int64*
      5 input_batching_dims int64*
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
    Sharding
      1 type int32
      3 tile_assignment_dimensions int64*
      4 tile_assignment_devices int64*
      6 replicate_on_last_tile_dim bool
      8 last_tile_dims int32*
      9 iota_reshape_dims int64*
      10 iota_transpose_perm int32*
      14 named_sharding NamedSharding
    NamedSharding
      2 mesh Mesh
      3 dim_shardings DimSharding*
      5 unreduced_axes AxisRef*
      7 manual_axes AxisRef*
    DimSharding
      1 axes AxisRef*
    Schedule
      1 sequences SequenceEntry*
    SequenceEntry
      1 key int64
      2 value bytes
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
      3 computation_devices ComputationDevice*
    ComputationDevice
      1 replica_device_ids int64*
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
"""The class of each message, by name."""
