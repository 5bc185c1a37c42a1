"""The least time of work on a chip: its bytes at the memory's rate, its FLOPs at the peak.

No kernel is faster, so no price is: what a formula, a table or the compiler says below it is an
error of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from counterpoint.cost.compute.gemm import gemms
from counterpoint.cost.compute.machine import ComputeDevice, rate_type
from counterpoint.hlo.category import WRITTEN_BY_HAND, Category, category
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.work import bytes_accessed, flops

_OPAQUE: Final = (Category.CUSTOM_CALL, Category.ATTENTION, Category.HOST, Category.COLLECTIVE)
"""Kernels that may not read all that they are given: pages of a cache, for example."""


def least_seconds(program: Program, instruction: Instruction, machine: ComputeDevice) -> float:
    """Return the least time of one kernel of a GPU; what the cache holds may already be there."""
    kind = category(program, instruction)
    if kind in _OPAQUE or instruction.custom_call_target in WRITTEN_BY_HAND:
        return 0.0
    moved = bytes_accessed(program, instruction) or 0
    moving = max(0.0, moved - machine.l2_bytes) / machine.memory_bytes_per_s
    return max(moving, multiplying_seconds(program, instruction, kind, machine.peak))


def multiplying_seconds(
    program: Program, instruction: Instruction, kind: Category, peak: Callable[[str], float]
) -> float:
    """Return the time of its products at the peak of their types; 0 if there are none."""
    if kind is Category.MATMUL:
        return sum(it.flops / peak(it.dtype) for it in gemms(program, instruction))
    if kind is Category.CONVOLUTION:
        inside = (instruction, *program.body(instruction))
        convolution = next((it for it in inside if it.convolution is not None), None)
        read = [it.shape.dtype for it in program.operands(convolution)] if convolution else []
        return (flops(program, instruction) or 0) / peak(rate_type(read[0])) if read else 0.0
    return 0.0
