"""The price of convolutions: as the GEMM that they amount to, less what its gathering costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.cost.compute.machine import Machine
from counterpoint.cost.price import Family, Price, Source, around
from counterpoint.hlo import Instruction, Program, bytes_accessed, flops
from counterpoint.hlo.shape import element_bits

_SHARE: Final = 0.65
"""Of the rate that a GEMM of the same work reaches: rule of thumb for cuDNN's implicit GEMMs."""
_GROUPED: Final = 0.1
"""Depthwise convolutions barely fill matrix units."""
_START_S: Final = 5e-6
_REACH: Final = 0.35
_DEEPEST: Final = 3


def price_convolution(program: Program, instruction: Instruction, machine: Machine) -> Price | None:
    """None where its operations can't be counted."""
    found = list(_convolutions(program, instruction))
    counts = [flops(program, it) for it in found]
    operations = sum(count for count in counts if count)
    if not operations or None in counts:
        return None
    read = [it.shape.dtype for it in program.operands(found[0]) if it.shape.dims]
    dtype = _type(read[0] if read else "bf16")
    grouped = any(it.convolution and it.convolution.feature_groups > 1 for it in found)
    kernels = machine.gemm(dtype)
    share = kernels.share * (_GROUPED if grouped else _SHARE) * machine.scalars.matmul.value
    rate = machine.peak(dtype) * share
    moving = (bytes_accessed(program, instruction) or 0) / machine.memory_rate
    seconds = _START_S + max(operations / rate, moving)
    how = f"convolution, {operations / 1e9:.3g} GFLOP {dtype} at {share:.0%} of peak"
    return around(seconds, _REACH, Source.ANALYTIC, Family.MATMUL, how)


def _convolutions(program: Program, it: Instruction, depth: int = 0) -> Iterator[Instruction]:
    if it.opcode.removesuffix("-start") == "fusion" and depth < _DEEPEST:
        for inner in program.body(it):
            yield from _convolutions(program, inner, depth + 1)
    elif it.convolution is not None:
        yield it


def _type(dtype: str) -> str:
    if dtype == "f32":
        return "tf32"
    if dtype in ("bf16", "f16", "f64"):
        return dtype
    if element_bits(dtype) <= 8:
        return "f8" if dtype.startswith("f") else "s8"
    return "f32"
