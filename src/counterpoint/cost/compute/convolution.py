"""Prices convolutions: as the equivalent GEMM, less the cost of its gathering."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from counterpoint.cost.compute.machine import ComputeDevice
from counterpoint.cost.model import Price, PriceFamily, PriceSource, price_around
from counterpoint.hlo import Instruction, Program
from counterpoint.hlo.model import element_bits
from counterpoint.hlo.work import bytes_accessed, flops

_SHARE: Final = 0.65
"""Share of the rate of a GEMM of the same work: rule of thumb for cuDNN's implicit GEMMs."""
_GROUPED: Final = 0.1
"""Depthwise convolutions barely fill matrix units."""
_START_S: Final = 5e-6
_REACH: Final = 0.35
_DEEPEST: Final = 3


def price_convolution(
    program: Program, instruction: Instruction, machine: ComputeDevice
) -> Price | None:
    """Price a convolution; None if its operations can't be counted."""
    found = list(_convolutions(program, instruction))
    counts = [flops(program, member) for member in found]
    operations = sum(count for count in counts if count)
    if not operations or None in counts:
        return None
    read = [operand.shape.dtype for operand in program.operands(found[0]) if operand.shape.dims]
    dtype = _type(read[0] if read else "bf16")
    grouped = any(member.convolution and member.convolution.feature_groups > 1 for member in found)
    kernels = machine.gemm(dtype)
    share = kernels.share * (_GROUPED if grouped else _SHARE) * machine.scalars.matmul.value
    rate = machine.peak(dtype) * share
    moving = (bytes_accessed(program, instruction) or 0) / machine.memory_rate
    seconds = _START_S + max(operations / rate, moving)
    how = f"convolution, {operations / 1e9:.3g} GFLOP {dtype} at {share:.0%} of peak"
    return price_around(seconds, _REACH, PriceSource.ANALYTIC, PriceFamily.MATMUL, how)


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


Pricer = Callable[[Program, Instruction, ComputeDevice], Price | None]
"""Returns None for a call that it can't price; then the next pricer is tried."""

_USERS: Final[list[tuple[re.Pattern[str], Pricer]]] = []


def register(pattern: str, pricer: Pricer) -> None:
    """Price custom calls whose target, name or op_name the pattern matches anywhere.

    The latest registered is tried first, and all of them before the pricers of Counterpoint.

    Use it for kernels whose work the compiler does not know. Match the call's name or op_name where
    many kernels share one target, as Pallas, Triton and Mosaic kernels do.
    """
    _USERS.insert(0, (re.compile(pattern), pricer))


def unregister(pricer: Pricer) -> None:
    """Remove a registered pricer."""
    _USERS[:] = [entry for entry in _USERS if entry[1] is not pricer]


def price_registered(
    program: Program, instruction: Instruction, machine: ComputeDevice
) -> Price | None:
    """Return the price from the first registered pricer that knows the call."""
    description = f"{instruction.custom_call_target} {instruction.name} {instruction.op_name}"
    for pattern, pricer in _USERS:
        if pattern.search(description):
            price = pricer(program, instruction, machine)
            if price is not None:
                return price
    return None
