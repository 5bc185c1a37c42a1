"""BufferPlan: XLA's assignment of buffers to memory, as it is in dumps, profiles and executables.

A *value* is an array that an instruction makes. A *block* is a stretch of memory that is allocated
at once: an argument, a constant, an output, or the arena of all temporaries of one memory space, in
which values that are not alive at once share bytes. The events say when values begin and end.

The messages are those of xla/service/hlo.proto, BufferAssignmentProto; what is read is the same in
jaxlib 0.8 to 0.12. Aliases (field 2) are not decoded: libtpu writes millions of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Final

from google.protobuf.message import DecodeError

from counterpoint.core import InputError
from counterpoint.hlo.wire_schema import Message, message_classes

HOST_COLOR: Final = 5
"""The color of a GPU's pinned host memory."""

_MOST: Final = 1 << 62
"""Bytes that nothing can have."""
_MESSAGES: Final = message_classes(
    "counterpoint.memory",
    """
    HloProto
      1 hlo_module bytes
      3 buffer_assignment bytes
    Module
      3 computations bytes*
    Computation
      1 name string
      2 instructions Named*
    Named
      1 name string
      35 id int64
    Assignment
      1 logical_buffers Value*
      3 buffer_allocations Block*
      4 heap_simulator_traces Trace*
    Value
      1 id int64
      2 size int64
      3 defined_at Location
      4 color int64
    Location
      2 instruction_name string
      3 shape_index int64*
      4 instruction_id int64
    Block
      1 index int64
      2 size int64
      3 is_thread_local bool
      5 is_entry_computation_parameter bool
      6 parameter_number int64
      7 maybe_live_out bool
      8 color int64
      9 assigned Assigned*
      10 parameter_shape_index int64*
      12 is_constant bool
    Assigned
      1 logical_buffer_id int64
      2 offset int64
      3 size int64
    Trace
      1 events Event*
      2 whole_module_simulation bool
    Event
      1 kind int32
      2 buffer_id int64
      5 share_with_canonical_id int64
    """,
)


class BlockKind(Enum):
    """What a block is allocated for."""

    ARGUMENT = auto()
    CONSTANT = auto()
    OUTPUT = auto()
    TEMPORARY = auto()
    THREAD_LOCAL = auto()  # inside fusions: no memory


@dataclass(frozen=True, slots=True)
class BufferValue:
    """An array that an instruction makes; `index` is its place in a tuple."""

    id: int
    size: int
    color: int
    computation: str
    instruction: str
    index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Assigned:
    """The place of a value in its block."""

    value: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Block:
    """Memory that is allocated at once; `parameter` and its index are those of an argument."""

    index: int
    size: int
    color: int
    kind: BlockKind
    assigned: tuple[Assigned, ...]
    parameter: int | None = None
    parameter_index: tuple[int, ...] = ()


class EventKind(Enum):
    """What happens to a value in the trace of a memory space."""

    ALLOCATE = 0
    FREE = 1
    SHARE = 2  # with a value that is alive


@dataclass(frozen=True, slots=True)
class Event:
    """An event; `shared` is the value whose bytes are shared."""

    kind: EventKind
    value: int
    shared: int = 0


@dataclass(frozen=True, eq=False)
class BufferPlan:
    """The values, blocks and events of a program; a trace has the events of one memory space."""

    values: Mapping[int, BufferValue]
    blocks: tuple[Block, ...]
    traces: tuple[tuple[Event, ...], ...]

    @cached_property
    def allocated(self) -> Mapping[int, int]:
        """Bytes that are allocated, by memory space."""
        sizes: dict[int, int] = {}
        for block in self.blocks:
            if block.kind is not BlockKind.THREAD_LOCAL:
                sizes[block.color] = sizes.get(block.color, 0) + block.size
        return sizes

    def blocks_of(self, *kinds: BlockKind) -> Iterator[Block]:
        """Yield the blocks of some kinds."""
        return (block for block in self.blocks if block.kind in kinds)


def plan_from_proto(data: bytes, where: str = "the module") -> BufferPlan | None:
    """Return the plan in a serialized HloProto; None if it has none."""
    try:
        proto = _MESSAGES["HloProto"].FromString(data)
    except DecodeError:
        return None
    if not proto.buffer_assignment or not _is_module(proto.hlo_module):
        return None  # a bare module, which has other things in these fields
    return plan_of(proto.buffer_assignment, proto.hlo_module, where)


def _is_module(data: bytes) -> bool:
    try:
        return len(_MESSAGES["Module"].FromString(data).computations) > 0
    except DecodeError:
        return False


def plan_of(assignment: bytes, module: bytes, where: str = "the module") -> BufferPlan:
    """Return the plan in a BufferAssignmentProto of this HloModuleProto."""
    try:
        message = _MESSAGES["Assignment"].FromString(assignment)
        names = dict(_names(module))
        values = {value.id: _value(value, names) for value in message.logical_buffers}
        blocks = tuple(_block(block) for block in message.buffer_allocations)
        traces = tuple(
            tuple(_events(trace))
            for trace in message.heap_simulator_traces
            if trace.whole_module_simulation
        )
    except (DecodeError, ValueError) as error:
        raise InputError(f"{where}: the plan of its memory is damaged", why=str(error)) from None
    plan = BufferPlan(values, blocks, traces)
    _check(plan, where)
    return plan


def _names(module: bytes) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield the computation and the name of each instruction, by its id."""
    for data in _MESSAGES["Module"].FromString(module).computations:
        computation = _MESSAGES["Computation"].FromString(data)
        for instruction in computation.instructions:
            yield instruction.id, (computation.name, instruction.name)


def _value(message: Message, names: Mapping[int, tuple[str, str]]) -> BufferValue:
    at = message.defined_at
    computation, name = names.get(at.instruction_id) or ("", at.instruction_name)
    if not name:
        raise ValueError(f"value {message.id} is made by an instruction that the module lacks")
    return BufferValue(
        message.id, message.size, message.color, computation, name, tuple(at.shape_index)
    )


def _block(message: Message) -> Block:
    is_argument = message.is_entry_computation_parameter
    return Block(
        index=message.index,
        size=message.size,
        color=message.color,
        kind=_kind(message),
        assigned=tuple(
            Assigned(one.logical_buffer_id, one.offset, one.size) for one in message.assigned
        ),
        parameter=message.parameter_number if is_argument else None,
        parameter_index=tuple(message.parameter_shape_index) if is_argument else (),
    )


def _kind(message: Message) -> BlockKind:
    if message.is_thread_local:
        return BlockKind.THREAD_LOCAL
    if message.is_entry_computation_parameter:
        return BlockKind.ARGUMENT
    if message.is_constant:
        return BlockKind.CONSTANT
    return BlockKind.OUTPUT if message.maybe_live_out else BlockKind.TEMPORARY


def _events(trace: Message) -> Iterator[Event]:
    for event in trace.events:
        yield Event(EventKind(event.kind), event.buffer_id, event.share_with_canonical_id)


def _check(plan: BufferPlan, where: str) -> None:
    """Refuse a plan whose parts contradict each other."""
    wrong = next(_contradictions(plan), None)
    if wrong is not None:
        raise InputError(f"{where}: the plan of its memory is damaged", why=wrong)


def _contradictions(plan: BufferPlan) -> Iterator[str]:
    for value in plan.values.values():
        if not 0 <= value.size < _MOST:
            yield f"value {value.id} has {value.size} bytes"
    for block in plan.blocks:
        if not 0 <= block.size < _MOST:
            yield f"block {block.index} has {block.size} bytes"
        for one in block.assigned:
            if one.value not in plan.values:
                yield f"block {block.index} holds value {one.value}, which is missing"
            if one.offset < 0 or one.size < 0 or one.offset + one.size > block.size:
                yield f"value {one.value} reaches beyond block {block.index}"
    for event in (event for trace in plan.traces for event in trace):
        if event.value not in plan.values:
            yield f"an event names value {event.value}, which is missing"
