"""Prices of custom calls: by the kind of the kernel if it is known, else as bounds."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from counterpoint.cost.callback import price_callback
from counterpoint.cost.compute.attention import price_attention
from counterpoint.cost.compute.backend_settings import settings_of
from counterpoint.cost.compute.convolution import price_convolution
from counterpoint.cost.compute.decomposition import price_decomposition
from counterpoint.cost.compute.machine import ComputeDevice
from counterpoint.cost.compute.memory import whole_bytes
from counterpoint.cost.compute.sorting import price_sort
from counterpoint.cost.compute.user_kernel import price_registered
from counterpoint.cost.model import FREE, Price, PriceFamily, PriceSource, price_around
from counterpoint.hlo.category import Category, category
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program

_CALL_START_S: Final = 2.5e-6
_LIKELY: Final = 2.0
"""Likely multiple of the memory bound for an unknown kernel; the upper bound is far higher."""
_MOST: Final = 16.0
_MOST_START_S: Final = 30e-6
_MEMORY_BOUND: Final = re.compile(
    r"norm|softmax|cast|transpose|dequant|quant|amax|act_lu|dact|bias|gelu|relu|silu|swiglu|rope|"
    r"rotary|dropout|xent|cross_entropy|dbias|scale|permut|topk|RadixSort|\$assert|cub_",
    re.IGNORECASE,
)
"""Kernels of Transformer Engine, cuDNN and others that read and write each element about once."""
_MEMORY_REACH: Final = 0.35
_KERNEL_SHARE: Final = 0.5
"""The share of the peak that a kernel written by hand reaches, where only its work is known."""
_STATED_REACH: Final = 0.5
_NO_WORK_WORDS: Final = (
    "AllocateBuffer Sharding SPMDFullToShardShape SPMDShardToFullShape annotate_device_placement "
    "PinToDevice LayoutConstraint MoveToDevice MoveToHost AssumeGatherIndicesInBound "
    "xla.gpu.ext.nop Pin Unpin CreateBuffer"
)
_NO_WORK: Final = frozenset(_NO_WORK_WORDS.split())
"""Markers for the compiler that launch nothing."""


def price_custom_call(program: Program, instruction: Instruction, machine: ComputeDevice) -> Price:
    """Price one execution; never free if a kernel runs.

    Tried in order: pricers that a user registered, then those for its kind (attention, convolution,
    sorts, norms and other memory-bound kernels), then by the work that the author of a Pallas
    kernel states. If none knows it, its operands and results cross memory at least once, and at
    most it takes many times that.
    """
    price = price_registered(program, instruction, machine)
    if price is not None:
        return price
    target = instruction.custom_call_target
    if target in _NO_WORK:
        return FREE
    kind = category(program, instruction)
    if kind is Category.HOST:
        return price_callback(whole_bytes(program, instruction) / machine.host_bytes_per_s)
    known = _known(program, instruction, machine, kind)
    return (
        known
        or price_decomposition(program, instruction, machine)
        or _stated(program, instruction, machine)
        or bound(program, instruction, machine)
    )


def _known(
    program: Program, instruction: Instruction, machine: ComputeDevice, kind: Category
) -> Price | None:
    if kind is Category.ATTENTION:
        return price_attention(program, instruction, machine)
    if kind is Category.CONVOLUTION:
        return price_convolution(program, instruction, machine)
    if kind is Category.SORT:
        return price_sort(program, instruction, machine)
    description = f"{instruction.custom_call_target} {instruction.name}"
    if _MEMORY_BOUND.search(description):
        moved = whole_bytes(program, instruction)
        seconds = _CALL_START_S + moved / machine.memory_rate
        how = f"{moved / 1e6:.3g} MB read or written once"
        return price_around(seconds, _MEMORY_REACH, PriceSource.ANALYTIC, PriceFamily.CUSTOM, how)
    return None


def _stated(program: Program, instruction: Instruction, machine: ComputeDevice) -> Price | None:
    """Price a Pallas kernel by the work that its author states (`pl.CostEstimate`)."""
    settings = settings_of(instruction)
    work, moved = settings.get("flops"), settings.get("bytes_accessed")
    if not isinstance(work, int) or not isinstance(moved, int) or max(work, moved) <= 0:
        return None
    operands = [operand.shape.dtype for operand in program.operands(instruction)]
    peak = max((machine.peak(dtype) for dtype in operands), default=machine.peak("bf16"))
    rate = peak * _KERNEL_SHARE
    seconds = _CALL_START_S + max(work / rate, moved / machine.memory_rate)
    least = max(work / peak, moved / machine.memory_bytes_per_s)
    how = f"{work / 1e9:.3g} GFLOP and {moved / 1e6:.3g} MB, as the kernel states"
    price = price_around(seconds, _STATED_REACH, PriceSource.ANALYTIC, PriceFamily.CUSTOM, how)
    return replace(price, low=max(price.low, least))


def bound(program: Program, instruction: Instruction, machine: ComputeDevice) -> Price:
    """Return bounds for unknown work, from the bytes it accesses."""
    crossing = whole_bytes(program, instruction) / machine.memory_bytes_per_s
    low = 1e-6 + crossing
    return Price(
        _CALL_START_S + crossing * _LIKELY,
        low,
        _MOST_START_S + crossing * _MOST,
        PriceSource.BOUND,
        PriceFamily.CUSTOM,
        "unknown kernel: its operands and results cross memory 1 to 16 times",
    )
