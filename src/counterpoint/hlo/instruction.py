"""One instruction of a compiled module, as the compiler wrote it, and its computation.

Names refer to other instructions and computations of the same module, where they are unique.
What follows from more than one instruction (pairs, loops, provenance, costs) is asked elsewhere
in this package. Values of constants are kept for single integers only: they count loops.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from counterpoint.hlo.groups import ReplicaGroups
from counterpoint.hlo.shape import Shape

Attributes = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DotDimensions:
    """Which dimensions a dot contracts and which it batches, left and right."""

    lhs_contracting: tuple[int, ...] = ()
    rhs_contracting: tuple[int, ...] = ()
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Convolution:
    """What a convolution's arithmetic depends on: `kernel_output_feature` is a dimension."""

    window: tuple[int, ...]
    kernel_output_feature: int
    feature_groups: int = 1
    batch_groups: int = 1


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `index` is its place in the schedule of its computation."""

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...]
    # Called computations; of a while the body, then the condition.
    calls: tuple[str, ...]
    computation: str
    index: int
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    stack_frame_id: int = 0
    # JSON as a rule. Not compared: text and proto order its keys differently.
    backend_config: str = field(default="", repr=False, compare=False)
    frontend_attributes: Attributes = ()
    channel_id: int | None = None
    use_global_device_ids: bool = False
    groups: ReplicaGroups | None = None
    source_target_pairs: tuple[tuple[int, int], ...] = ()
    custom_call_target: str = ""
    fusion_kind: str = ""
    parameter_number: int | None = None
    tuple_index: int | None = None
    literal: int | None = None
    comparison: str = ""
    dimensions: tuple[int, ...] = ()
    dot: DotDimensions | None = None
    convolution: Convolution | None = None
    is_host_transfer: bool = False
    # What the scheduler knew it as, where the module tells: later passes rename and clone.
    scheduling_name: str = ""

    @property
    def is_sync(self) -> bool:
        """A collective in start/done form that XLA nevertheless runs on the main stream."""
        return '"is_sync":true' in self.backend_config.replace(" ", "")


@dataclass(frozen=True, slots=True)
class Computation:
    """Instructions in the order in which they are launched."""

    name: str
    instructions: tuple[Instruction, ...]
    root: str
