"""Prices of decompositions of matrices (Cholesky, LU, QR, eigh, svd), by rules of thumb."""

from __future__ import annotations

import re
from typing import Final

from counterpoint.cost.compute.machine import ComputeDevice, rate_type
from counterpoint.cost.model import Price, PriceFamily, PriceSource
from counterpoint.hlo import Instruction, Program

_DECOMPOSITIONS: Final = (
    (r"syev|heev|eigh", 9, 40e-6),
    (r"gesvd|svd", 22, 400e-6),
    (r"geqrf|(or|un)gqr|householder|sytrd|ormqr", 2, 10e-6),
    (r"potrf|cholesky|getrf|(^| |_)lu\b|triangular|gtsv", 1, 2e-6),
)
"""Operations for a matrix of n x n, in n^3, and the time that each of its columns takes."""
_DECOMPOSING: Final = (4, 0.1, 0.02)
"""The time of a column may be a fourth or four times of it; likely and lowest share of the peak."""


def price_decomposition(
    program: Program, instruction: Instruction, machine: ComputeDevice
) -> Price | None:
    """Price a decomposition of matrices, which goes from column to column; None for other work.

    Rules of thumb for cuSOLVER. Several matrices are decomposed together, or one after another.
    """
    described = f"{instruction.custom_call_target} {instruction.name} {instruction.opcode}"
    found = next((it for it in _DECOMPOSITIONS if re.search(it[0], described)), None)
    shapes = [operand.shape for operand in program.operands(instruction)]
    matrices = max(
        (it for it in shapes if len(it.dims) > 1), key=lambda it: it.elements, default=None
    )
    if found is None or matrices is None or not matrices.elements:
        return None
    _, operations, column_s = found
    side, other = sorted(matrices.dims[-2:])
    count = matrices.elements // (side * other)
    apart, likely, slowest = _DECOMPOSING
    least = operations * side * matrices.elements / machine.peak(rate_type(matrices.dtype))
    one_s = side * column_s
    return Price(
        one_s * count**0.5 + least / likely,
        one_s / apart + least,
        one_s * apart * count + least / slowest,
        PriceSource.BOUND,
        PriceFamily.CUSTOM,
        f"decomposition: {count:,} x {side:,} columns, rule of thumb",
    )
