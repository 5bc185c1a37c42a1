"""Analyzes the memory of a compiled step: what it needs, whose it is at the peak, and over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from counterpoint.core import InputError
from counterpoint.hlo.memory.curve import Moment, moments
from counterpoint.hlo.memory.owners import Held, Owner, Owners
from counterpoint.hlo.memory.plan import HOST_COLOR, BlockKind, BufferPlan, Event
from counterpoint.hlo.memory.replay import Replay
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.provenance import provenance

_DEFAULT_COLOR: Final = 0
_HOST: Final = "host"
_GPU_SPACES: Final = {0: "device", 1: "collectives", 7: "collectives", HOST_COLOR: _HOST}
_TPU_SPACES: Final = {0: "device", 1: "VMEM", 2: "flags", 6: "SMEM"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What a step takes of one memory space.

    `live_bytes` is the largest sum of temporaries that are held at once; the rest of their block is
    its fragmentation.
    """

    name: str
    color: int
    on_device: bool  # a part of the device's large memory
    arguments: int
    outputs: int
    constants: int
    temporaries: int
    live_bytes: int

    @property
    def needs(self) -> int:
        return self.arguments + self.outputs + self.constants + self.temporaries

    @property
    def fragmentation(self) -> int:
        return self.temporaries - self.live_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPeak:
    """Where most is held: an instruction of the schedule, and its place in the user's code."""

    instruction: str
    position: int
    positions: int
    scope: str
    source: str | None
    phase: str
    in_loop: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryAnalysis:
    """The memory of a step on one device.

    `held` is everything at the chosen moment, by default the peak: it adds up to what the step
    needs of the device and of the host. `moments` is the schedule with what temporaries hold.
    """

    program: Program = field(repr=False)
    plan: BufferPlan = field(repr=False)
    spaces: tuple[Space, ...]
    peak: MemoryPeak
    held: tuple[Held, ...]
    moments: tuple[Moment, ...] = field(repr=False)
    live: frozenset[int] = field(repr=False)  # values of temporaries at that moment
    owners: Owners = field(repr=False)
    has_names: bool = True
    notes: tuple[str, ...] = ()

    @property
    def needs(self) -> int:
        """Bytes of the device that a step allocates."""
        return sum(space.needs for space in self.spaces if space.on_device)

    @property
    def host_bytes(self) -> int:
        """Bytes of pinned host memory, for each device."""
        return sum(space.needs for space in self.spaces if space.name == _HOST)

    @property
    def by_owner(self) -> dict[Owner, int]:
        """Bytes of the device by owner, largest first."""
        sums: dict[Owner, int] = {}
        colors = {space.color for space in self.spaces if space.on_device}
        for row in self.held:
            if row.color in colors:
                sums[row.owner] = sums.get(row.owner, 0) + row.bytes
        return dict(sorted(sums.items(), key=lambda item: -item[1]))


def analyze_memory(
    program: Program, plan: BufferPlan, *, on_tpus: bool = False, at: str | None = None
) -> MemoryAnalysis:
    """Return the analysis of a scheduled program; `at` is an instruction instead of the peak."""
    trace = _device_trace(plan)
    schedule = tuple(moments(program, plan, trace))
    moment = _moment(schedule, at)
    owners = Owners(program, plan)
    live = set(Replay(plan, trace).at(moment.event).values) if moment.event >= 0 else set[int]()
    for other in plan.traces:
        if other is not trace:
            live |= Replay(plan, other).peak().values
    spaces = tuple(_spaces(plan, on_tpus=on_tpus))
    colors = {space.color for space in spaces if space.on_device or space.name == _HOST}
    held = tuple(row for row in owners.held(live) if row.color in colors)
    return MemoryAnalysis(
        program=program,
        plan=plan,
        spaces=spaces,
        peak=_peak(program, schedule, moment),
        held=held,
        moments=schedule,
        live=frozenset(live),
        owners=owners,
        has_names=any(it.op_name for it in program.instructions),
    )


def _device_trace(plan: BufferPlan) -> tuple[Event, ...]:
    """Return the events of the device's own memory."""
    for trace in plan.traces:
        if any(plan.values[event.value].color == _DEFAULT_COLOR for event in trace):
            return trace
    return ()


def _moment(schedule: Sequence[Moment], at: str | None) -> Moment:
    if at is None:
        return max(schedule, key=lambda moment: moment.bytes)
    for moment in schedule:
        if moment.instruction == at:
            return moment
    raise InputError(f"the schedule has no instruction {at!r}", next="use --at peak")


def _peak(program: Program, schedule: Sequence[Moment], moment: Moment) -> MemoryPeak:
    it = program.instruction(moment.instruction)
    origin = None if it is None else provenance(program, it)
    return MemoryPeak(
        instruction=moment.instruction,
        position=schedule.index(moment),
        positions=len(schedule),
        scope="" if origin is None else origin.scope,
        source=None if origin is None else origin.source,
        phase="" if origin is None else str(origin.phase),
        in_loop=origin is not None and origin.in_loop,
    )


def _spaces(plan: BufferPlan, *, on_tpus: bool) -> Iterable[Space]:
    names = _TPU_SPACES if on_tpus else _GPU_SPACES
    live: dict[int, int] = {}
    colors = {
        one.value: block.color
        for block in plan.blocks_of(BlockKind.TEMPORARY)
        for one in block.assigned
    }
    for trace in plan.traces:
        peak = Replay(plan, trace).peak()
        for value in peak.values:
            color = colors.get(value, plan.values[value].color)
            live[color] = live.get(color, 0) + plan.values[value].size
    for color in sorted(plan.allocated):
        sizes = {
            kind: sum(block.size for block in plan.blocks_of(kind) if block.color == color)
            for kind in BlockKind
        }
        yield Space(
            name=names.get(color, f"memory space {color}"),
            color=color,
            on_device=color == _DEFAULT_COLOR if on_tpus else color != HOST_COLOR,
            arguments=sizes[BlockKind.ARGUMENT],
            outputs=sizes[BlockKind.OUTPUT],
            constants=sizes[BlockKind.CONSTANT],
            temporaries=sizes[BlockKind.TEMPORARY],
            live_bytes=live.get(color, 0),
        )
