"""Prices of convolutions: as a GEMM of the same work, at a share of its rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.cost.compute.machine import ComputeDevice, rate_type
from counterpoint.cost.model import Price, PriceFamily, PriceSource, price_around
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.work import bytes_accessed, flops

_SHARE: Final = 0.65
"""Share of the rate of a GEMM of the same work: rule of thumb for cuDNN's implicit GEMMs."""
_GROUPED: Final = 0.1
"""Depthwise convolutions barely fill matrix units."""
_CONVOLUTION_START_S: Final = 5e-6
_CONVOLUTION_REACH: Final = 0.35
_DEEPEST: Final = 3


def price_convolution(
    program: Program, instruction: Instruction, machine: ComputeDevice
) -> Price | None:
    """Price a convolution; None if its operations can't be counted."""
    members = list(_convolutions(program, instruction))
    counts = [flops(program, member) for member in members]
    operations = sum(count for count in counts if count)
    if not operations or None in counts:
        return None
    read = [operand.shape.dtype for operand in program.operands(members[0]) if operand.shape.dims]
    dtype = rate_type(read[0] if read else "bf16")
    grouped = any(
        member.convolution and member.convolution.feature_groups > 1 for member in members
    )
    kernels = machine.gemm(dtype)
    share = kernels.share * (_GROUPED if grouped else _SHARE) * machine.scalars.matmul.value
    rate = machine.peak(dtype) * share
    moving = (bytes_accessed(program, instruction) or 0) / machine.memory_rate
    seconds = _CONVOLUTION_START_S + max(operations / rate, moving)
    how = f"convolution, {operations / 1e9:.3g} GFLOP {dtype} at {share:.0%} of peak"
    return price_around(seconds, _CONVOLUTION_REACH, PriceSource.ANALYTIC, PriceFamily.MATMUL, how)


def _convolutions(
    program: Program, instruction: Instruction, depth: int = 0
) -> Iterator[Instruction]:
    if instruction.opcode.removesuffix("-start") == "fusion" and depth < _DEEPEST:
        for inner in program.body(instruction):
            yield from _convolutions(program, inner, depth + 1)
    elif instruction.convolution is not None:
        yield instruction
