"""Chains of memory-bound kernels: each writes a large buffer, and the next reads it from memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from counterpoint.diagnose.executed_ops import ExecutedOp, executed_ops, moves_only, readers
from counterpoint.diagnose.step_data import StepData
from counterpoint.hlo.model.instruction import Instruction

if TYPE_CHECKING:
    from counterpoint.hardware.chip import Chip


_OTHER_WORK: Final = ("collective", "host", "control")

_CACHE_BYTES: Final = 64 << 20
"""Larger than the caches of most chips (A100 40 MB, H100 50 MB); a smaller buffer may stay in
them."""

_SAME_PART: Final = {"remat": "backward"}

_Key = tuple[int, str, str]


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
        return sum(ms for _, ms in self.parts)

    @property
    def parts(self) -> tuple[tuple[ExecutedOp, float], ...]:
        """Each kernel with its time for the buffer."""
        written = 0.0 if self.kept else _share(self.writer, self.bytes)
        return ((self.writer, written), (self.reader, _share(self.reader, self.bytes)))


@dataclass(frozen=True, slots=True, eq=False)
class KernelChain:
    """Kernels, longest first, and the buffers they pass on."""

    members: tuple[ExecutedOp, ...]
    handovers: tuple[Handover, ...]

    @property
    def handed_ms(self) -> float:
        """The kernels' time for the buffers; that of a kernel with several is at most its own."""
        spent = [part for handover in self.handovers for part in handover.parts]
        by_kernel: dict[int, float] = {}
        for kernel, ms in spent:
            by_kernel[id(kernel)] = by_kernel.get(id(kernel), 0.0) + ms
        own = {id(kernel): kernel.ms for kernel, _ in spent}
        return sum(min(ms, own[kernel]) for kernel, ms in by_kernel.items())


def chains(data: StepData, chip: Chip) -> list[KernelChain]:
    """Return the chains, most expensive first."""
    bound = {
        (kernel.row["program"], kernel.instruction.computation, kernel.instruction.name): kernel
        for kernel in executed_ops(data, ~pl.col("category").is_in(_OTHER_WORK))
        if is_memory_bound(kernel.row, chip) and not moves_only(kernel.program, kernel.instruction)
    }
    handovers = [handover for writer in bound.values() for handover in _handovers(writer, bound)]
    return sorted(_joined(handovers), key=lambda chain: -chain.handed_ms)


def is_memory_bound(row: dict[str, Any], chip: Chip) -> bool:
    """Return whether the op's bytes take longer than its operations; False if not known."""
    moved, flops = row["bytes_accessed"], row["flops"]
    if not moved or flops is None:
        return False
    return moved / chip.hbm_bytes > flops / chip.bf16_flops


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


def _part(kernel: ExecutedOp) -> str | None:
    phase = kernel.row["phase"]
    return _SAME_PART.get(phase, phase)


def _share(kernel: ExecutedOp, moved: int) -> float:
    return kernel.ms * min(1.0, moved / kernel.row["bytes_accessed"])


def _joined(handovers: Sequence[Handover]) -> Iterator[KernelChain]:
    """Group handovers that share kernels."""
    leader: dict[int, int] = {}

    def lead(of: int) -> int:
        while leader.setdefault(of, of) != of:
            leader[of] = leader[leader[of]]
            of = leader[of]
        return of

    for handover in handovers:
        leader[lead(id(handover.writer))] = lead(id(handover.reader))
    groups: dict[int, list[Handover]] = {}
    for handover in handovers:
        groups.setdefault(lead(id(handover.writer)), []).append(handover)
    for group in groups.values():
        members = {
            id(kernel): kernel
            for handover in group
            for kernel in (handover.writer, handover.reader)
        }
        longest = sorted(members.values(), key=lambda kernel: -kernel.ms)
        yield KernelChain(tuple(longest), tuple(group))
