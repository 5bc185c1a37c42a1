"""The price of transfers between device and host: copies, and slices of what is offloaded."""

from __future__ import annotations

from typing import Final

from counterpoint.cost.compute.machine import Machine
from counterpoint.cost.price import Family, Price, Source, around
from counterpoint.hlo import Instruction, Program, bytes_accessed

_START_S: Final = 8e-6
"""A transfer over PCIe: what cudaMemcpyAsync of a few bytes takes."""
_REACH: Final = 0.25
_HOST_MEMORY: Final = 5
_SLICES: Final = ("dynamic-slice", "dynamic-update-slice", "slice", "fusion", "async")


def is_offloaded(program: Program, instruction: Instruction) -> bool:
    """Whether it reads slices of a value in the host's memory, or writes them."""
    if instruction.opcode.removesuffix("-start") not in _SLICES:
        return False
    shapes = [instruction.shape, *(it.shape for it in program.operands(instruction))]
    return any(leaf.memory_space == _HOST_MEMORY for it in shapes for leaf in it.leaves)


def price_host_transfer(program: Program, instruction: Instruction, machine: Machine) -> Price:
    """To or from pinned memory of the host."""
    moved = _moved(program, instruction)
    seconds = _START_S + moved / machine.host_bytes_per_s
    how = f"{moved / 1e6:.3g} MB at {machine.host_bytes_per_s / 1e9:.0f} GB/s"
    return around(seconds, _REACH, Source.ANALYTIC, Family.HOST, how)


def _moved(program: Program, instruction: Instruction) -> int:
    """Bytes on the link: the slice, or the larger side of a copy."""
    if is_offloaded(program, instruction):
        return (bytes_accessed(program, instruction) or 0) // 2
    read = sum(it.shape.bytes for it in program.operands(instruction))
    return max(read, *(leaf.bytes for leaf in instruction.shape.leaves), 0)
