"""Prices of transfers to and from pinned memory of the host."""

from __future__ import annotations

from typing import Final

from counterpoint.cost.compute.machine import ComputeDevice
from counterpoint.cost.model import Price, PriceFamily, PriceSource, price_around
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.work import bytes_accessed

_HOST_START_S: Final = 8e-6
"""A transfer over PCIe: the time of cudaMemcpyAsync for a few bytes."""
_HOST_REACH: Final = 0.25
_HOST_MEMORY: Final = 5
_SLICES: Final = ("dynamic-slice", "dynamic-update-slice", "slice", "fusion", "async")


def is_offloaded(program: Program, instruction: Instruction) -> bool:
    """Return whether it reads or writes slices of a value in the host's memory."""
    if instruction.opcode.removesuffix("-start") not in _SLICES:
        return False
    shapes = [instruction.shape, *(operand.shape for operand in program.operands(instruction))]
    return any(leaf.memory_space == _HOST_MEMORY for value in shapes for leaf in value.leaves)


def price_host_transfer(
    program: Program, instruction: Instruction, machine: ComputeDevice
) -> Price:
    """Price a transfer to or from pinned memory of the host."""
    moved = _moved(program, instruction)
    seconds = _HOST_START_S + moved / machine.host_bytes_per_s
    how = f"{moved / 1e6:.3g} MB at {machine.host_bytes_per_s / 1e9:.0f} GB/s"
    return price_around(seconds, _HOST_REACH, PriceSource.ANALYTIC, PriceFamily.HOST, how)


def _moved(program: Program, instruction: Instruction) -> int:
    """Return bytes on the link: the slice, or the larger side of a copy."""
    if is_offloaded(program, instruction):
        return (bytes_accessed(program, instruction) or 0) // 2
    read = sum(operand.shape.bytes for operand in program.operands(instruction))
    return max(read, *(leaf.bytes for leaf in instruction.shape.leaves), 0)
