"""Prices Fourier transforms: cuFFT's passes over memory, by the lengths.

Rules of thumb: one kernel transforms up to some thousand points that are neighbors; more points or
other dimensions are further passes. A length with a large prime factor is transformed as a
convolution of twice the length or more.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from counterpoint.cost.compute.memory import whole_bytes
from counterpoint.cost.model import Price, PriceFamily, PriceSource, price_around
from counterpoint.hlo.model.instruction import Instruction, element_bits
from counterpoint.hlo.model.program import Program

if TYPE_CHECKING:
    from counterpoint.cost.compute.machine import ComputeDevice

_START_S: Final = 5e-6
_PASS_START_S: Final = 2e-6
_IN_A_KERNEL: Final = 13  # doublings: 8,192 points
_LARGEST_PRIME: Final = 127  # which cuFFT has a kernel for
_SHARE: Final = 0.9
_ACROSS: Final = 0.7
"""Share of a plain kernel's rate: passes along memory, and across it."""
_COMPUTING: Final = 0.4
"""Share of the vector rate of additions and multiplications that alternate."""
_REACH: Final = 0.6


def price_fft(program: Program, instruction: Instruction, machine: ComputeDevice) -> Price | None:
    """Price a transform; None if its length is not known."""
    lengths = instruction.fft_length
    if not lengths or min(lengths) < 1:
        return None
    complex_type = max(
        (leaf.dtype for leaf in instruction.shape.leaves), key=element_bits, default="c64"
    )
    operands = program.operands(instruction)
    shapes = [instruction.shape, *(operand.shape for operand in operands[:1])]
    points = max(shape.elements for shape in shapes)
    moved = whole_bytes(program, instruction)
    rate = machine.memory_rate
    moving = passes = 0.0
    for place, length in enumerate(reversed(lengths)):
        padded, several = _convolved(length)
        kernels = max(1, math.ceil(math.log2(padded) / _IN_A_KERNEL))
        share = _SHARE if place == 0 and kernels == 1 else _ACROSS
        passes += kernels * several
        moving += kernels * several * moved * (padded / length) / (rate * share)
    wide = element_bits(complex_type) > 64
    vector = machine.peak("f64" if wide else "f32") * _COMPUTING
    computing = 5 * points * sum(math.log2(max(2, length)) for length in lengths) / vector
    seconds = _START_S + passes * _PASS_START_S + max(moving, computing)
    how = f"transform of {' x '.join(map(str, lengths))}, {moved / 1e6:.3g} MB in {passes:g} passes"
    return price_around(seconds, _REACH, PriceSource.ANALYTIC, PriceFamily.MEMORY, how)


def _convolved(length: int) -> tuple[int, int]:
    """Return the length that is transformed, and how many times the passes are run."""
    if _largest_factor(length) <= _LARGEST_PRIME:
        return length, 1
    return 1 << math.ceil(math.log2(2 * length - 1)), 3


def _largest_factor(number: int) -> int:
    """Return the largest prime factor, or any number above all that have a kernel."""
    for prime in range(2, _LARGEST_PRIME + 1):
        while number % prime == 0 and number > 1:
            number //= prime
        if number == 1:
            return prime
    return number
