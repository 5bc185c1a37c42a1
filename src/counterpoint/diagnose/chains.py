"""Chains of memory-bound kernels that pass large buffers to each other through memory.

A kernel is memory-bound if its bytes take longer than its operations at the chip's rates. Two such
kernels form a chain if one reads what the other wrote, in the same part of the step, and the buffer
is larger than the chip's cache: it is written and read again only because the two are not fused. A
buffer that crosses from forward to backward is stored for the backward pass, and fusion would not
remove it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from counterpoint.core.columns import Intervals, union
from counterpoint.diagnose.recomputed import ExecutedOp, executed_ops, moves_only, readers
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.diagnose.step_data import StepData
from counterpoint.hardware import Chip
from counterpoint.hlo import Instruction

_OTHER_WORK: Final = ("collective", "host", "control")
_CACHE_BYTES: Final = 64 << 20
"""Larger than the caches of most chips (A100 40 MB, H100 50 MB); a smaller buffer may stay in
them."""
_SAME_PART: Final = {"remat": "backward"}


@dataclass(frozen=True, slots=True, eq=False)
class Handover:
    """A buffer that one kernel writes and another reads."""

    writer: ExecutedOp
    reader: ExecutedOp
    bytes: int  # of one execution
    kept: bool  # has other readers too, so it has to be written in any case

    @property
    def ms(self) -> float:
        """The kernels' own time for it, in proportion to its share of their bytes."""
        written = 0.0 if self.kept else _share(self.writer, self.bytes)
        return written + _share(self.reader, self.bytes)


@dataclass(frozen=True, slots=True, eq=False)
class KernelChain:
    """Kernels, longest first, and the buffers they pass on."""

    members: tuple[ExecutedOp, ...]
    handovers: tuple[Handover, ...]

    @property
    def handed_ms(self) -> float:
        return sum(handover.ms for handover in self.handovers)


def chains(case: StepData, chip: Chip) -> list[KernelChain]:
    """Return the chains, most expensive first."""
    bound = {
        (kernel.row["program"], kernel.instruction.computation, kernel.instruction.name): kernel
        for kernel in executed_ops(case, ~pl.col("category").is_in(_OTHER_WORK))
        if is_memory_bound(kernel.row, chip) and not moves_only(kernel.program, kernel.instruction)
    }
    found = [handover for writer in bound.values() for handover in _handovers(writer, bound)]
    return sorted(_joined(found), key=lambda chain: -chain.handed_ms)


def is_memory_bound(row: dict[str, Any], chip: Chip) -> bool:
    """Return whether the op's bytes take longer than its operations; False if not known."""
    moved, flops = row["bytes_accessed"], row["flops"]
    if not moved or flops is None:
        return False
    return moved / chip.hbm_bytes > flops / chip.bf16_flops


_Key = tuple[int, str, str]


def _handovers(writer: ExecutedOp, bound: dict[_Key, ExecutedOp]) -> Iterator[Handover]:
    program, own = writer.row["program"], writer.instruction
    pairs = list(readers(writer.program, own))
    for reader, moved in pairs:
        kernel = bound.get((program, reader.computation, reader.name))
        if kernel is None or moved < _CACHE_BYTES or _part(kernel) != _part(writer):
            continue
        yield Handover(writer, kernel, moved, kept=_is_kept(writer, pairs, bound))


def _is_kept(
    writer: ExecutedOp, readers: Sequence[tuple[Instruction, int]], bound: dict[_Key, ExecutedOp]
) -> bool:
    """Return whether the buffer also has readers outside the chain or has several readers."""
    program = writer.row["program"]
    kernels = [
        bound.get((program, instruction.computation, instruction.name))
        for instruction, _ in readers
    ]
    return len(readers) > 1 or any(
        kernel is None or _part(kernel) != _part(writer) for kernel in kernels
    )


def _part(one: ExecutedOp) -> str | None:
    phase = one.row["phase"]
    return _SAME_PART.get(phase, phase)


def _share(one: ExecutedOp, moved: int) -> float:
    return one.ms * min(1.0, moved / one.row["bytes_accessed"])


def _joined(found: Sequence[Handover]) -> Iterator[KernelChain]:
    """Group handovers that share kernels."""
    leader: dict[int, int] = {}

    def lead(of: int) -> int:
        while leader.setdefault(of, of) != of:
            leader[of] = leader[leader[of]]
            of = leader[of]
        return of

    for handover in found:
        leader[lead(id(handover.writer))] = lead(id(handover.reader))
    groups: dict[int, list[Handover]] = {}
    for handover in found:
        groups.setdefault(lead(id(handover.writer)), []).append(handover)
    for group in groups.values():
        members = {
            id(kernel): kernel
            for handover in group
            for kernel in (handover.writer, handover.reader)
        }
        longest = sorted(members.values(), key=lambda kernel: -kernel.ms)
        yield KernelChain(tuple(longest), tuple(group))


_NAME: Final = re.compile(r"^Transpose(Plan)?::Execute|^(Parallel|DelinearizeUsing)Transpose")


@dataclass(frozen=True, slots=True)
class HostTransposes:
    """Transposes on the hosts, in milliseconds; only `busy_ms` adds up threads."""

    name: str
    events: int
    busy_ms: float
    before_ms: float  # before the first step
    in_steps_ms: float  # in a median step, mean over hosts


def host_transposes(case: StepData) -> HostTransposes:
    """Return the transposes of all hosts; empty if no step was found.

    The runtime reorders arrays into the device's layout, or back into NumPy's, on threads of the
    host and records it (xla/pjrt/transpose.cc). These events nest and overlap; except in `busy_ms`,
    the time in which at least one is active counts.
    """
    timeline = case.timeline
    codes = [code for code, name in enumerate(timeline.host_names) if _NAME.match(name)]
    events = timeline.host_events.filter(pl.col("name").is_in(codes) & (pl.col("dur_ps") > 0))
    windows = case.selection.windows
    if not len(events) or not len(windows):
        return HostTransposes("", 0, 0.0, 0.0, 0.0)
    first = int(timeline.steps["start_ps"].to_numpy().min())
    hosts = [union_of(group) for _, group in events.group_by("host", maintain_order=True)]
    steps = union(windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy())
    share = case.step_ms * PS_PER_MS / max(_mean_length(windows), 1.0) / _per_device(windows)
    busiest = events.group_by("name").agg(pl.col("dur_ps").sum()).sort("dur_ps", "name")
    last: int = busiest["name"].to_list()[-1]
    return HostTransposes(
        name=timeline.host_names[last],
        events=len(events),
        busy_ms=float(events["dur_ps"].sum()) / PS_PER_MS,
        before_ms=max(_before(intervals, first) for intervals in hosts) / PS_PER_MS,
        in_steps_ms=sum((intervals & steps).total for intervals in hosts)
        / len(hosts)
        / PS_PER_MS
        * share,
    )


def union_of(events: pl.DataFrame) -> Intervals:
    """Return the time in which at least one event is running."""
    start = events["start_ps"].to_numpy()
    return union(start, start + events["dur_ps"].to_numpy())


def _before(of: Intervals, moment: int) -> int:
    return of.clip(int(np.iinfo(np.int64).min), moment).total


def _mean_length(windows: pl.DataFrame) -> float:
    return float((windows["end_ps"] - windows["start_ps"]).to_numpy().mean())


def _per_device(windows: pl.DataFrame) -> float:
    return len(windows) / windows["device"].n_unique()
