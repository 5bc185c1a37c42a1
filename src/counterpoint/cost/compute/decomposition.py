"""Prices of decompositions of matrices (Cholesky, LU, QR, eigh, svd), by rules of thumb."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from counterpoint.cost.compute.machine import ComputeDevice, rate_type
from counterpoint.cost.compute.memory import whole_bytes
from counterpoint.cost.model import Price, PriceFamily, PriceSource
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program


@dataclass(frozen=True, slots=True)
class Decomposition:
    """How a kind of decomposition goes from column to column."""

    named: str  # a pattern
    operations: float  # of a matrix of n x n, in n^3
    least: float  # of these, what any way to do it needs
    column_s: float  # time of each column
    small_column_s: float  # where one multiprocessor has the whole matrix
    small: int  # columns up to which many are decomposed at once; larger ones one by one
    reads_panel: bool = False  # each column reads those beside it


_ANY: Final = 1 << 62
_KINDS: Final = (
    Decomposition(r"syev|heev|eigh", 9, 4 / 3, 40e-6, 40e-6, 32),
    Decomposition(r"gesvd|svd", 22, 8 / 3, 400e-6, 80e-6, 32),
    Decomposition(
        r"geqrf|(or|un)gqr|householder|sytrd|ormqr", 2, 2 / 3, 10e-6, 4e-6, 128, reads_panel=True
    ),
    Decomposition(r"getrf|(^| |_)lu\b", 1, 2 / 3, 2e-6, 2e-6, 128),
    Decomposition(r"potrf|cholesky", 1, 1 / 3, 2e-6, 2e-6, _ANY),
)
"""jaxlib calls cuSOLVER's batched kernels up to these sizes, and loops over larger matrices."""
_APART: Final = 4
_LIKELY: Final = 0.1
_SLOWEST: Final = 0.02
"""The time of a column may be a fourth or four times of it; likely and lowest share of the peak."""
_AT_ONCE: Final = 8  # small matrices on a multiprocessor
_PANEL: Final = 64
_SOLVE: Final = re.compile("triangular|trsm", re.IGNORECASE)
_BLOCK: Final = 32  # rows that a triangular solve finishes before the next can begin
_BLOCK_S: Final = 10e-6
_SOLVING: Final = 0.45
"""Share of the vector rate that a large triangular solve reaches; a fourth of it at worst."""


def price_decomposition(
    program: Program, instruction: Instruction, machine: ComputeDevice
) -> Price | None:
    """Price a decomposition of matrices, which goes from column to column; None for other work.

    Rules of thumb for cuSOLVER. Several matrices are decomposed together if they are small, or one
    after another.
    """
    described = f"{instruction.custom_call_target} {instruction.name} {instruction.opcode}"
    shapes = [operand.shape for operand in program.operands(instruction)]
    if _SOLVE.search(described):
        return _solve(shapes, machine)
    method = next((it for it in _KINDS if re.search(it.named, described)), None)
    matrices = max(
        (it for it in shapes if len(it.dims) > 1), key=lambda it: it.elements, default=None
    )
    if method is None or matrices is None or not matrices.elements:
        return None
    side, other = sorted(matrices.dims[-2:])
    count = matrices.elements // (side * other)
    small = count > 1 and side <= method.small
    one_s = side * (method.small_column_s if small else method.column_s)
    times = math.ceil(count / (machine.cores * _AT_ONCE)) if small else count
    work = method.operations * side * matrices.elements / machine.peak(rate_type(matrices.dtype))
    moved = whole_bytes(program, instruction)
    once = moved / machine.memory_bytes_per_s
    least = method.least * side * matrices.elements / machine.peak(_vector_type(matrices.dtype))
    panels = moved * min(side, _PANEL) / 2 / machine.memory_rate if method.reads_panel else once
    how = "many at once" if small else "one after another"
    return Price(
        max(one_s * times + work / _LIKELY + panels, least),
        max(one_s * times / _APART + work, once, least),
        one_s * times * _APART + work / _SLOWEST + 2 * panels,
        PriceSource.BOUND,
        PriceFamily.CUSTOM,
        f"decomposition: {count:,} x {side:,} columns, {how}, rule of thumb",
    )


def _vector_type(dtype: str) -> str:
    """Return the type of cuSOLVER's arithmetic: it does not round float32 to TF32."""
    return "f64" if dtype in ("f64", "c128") else "f32"


def _solve(shapes: list[Shape], machine: ComputeDevice) -> Price | None:
    """Price a triangular solve: its products, and the chain of blocks that wait for each other."""
    matrices = [it for it in shapes if len(it.dims) > 1 and it.elements]
    if len(matrices) < 2:
        return None
    triangle, sides = matrices[:2]
    if triangle.dims[-1] != triangle.dims[-2]:
        triangle, sides = sides, triangle
    side = triangle.dims[-1]
    complex_ = 4 if triangle.dtype.startswith("c") else 1
    least = complex_ * side * sides.elements / machine.peak(_vector_type(triangle.dtype))
    count = triangle.elements // (side * triangle.dims[-2])
    waves = math.ceil(count / (machine.cores * _AT_ONCE))
    chain = math.ceil(side / _BLOCK) * _BLOCK_S * waves
    moved = (2 * sides.bytes + triangle.bytes / 2) / machine.memory_bytes_per_s
    return Price(
        chain + least / _SOLVING + moved,
        max(chain / _APART, least, moved),
        chain * _APART + least * _APART / _SOLVING + 2 * moved,
        PriceSource.BOUND,
        PriceFamily.CUSTOM,
        f"triangular solve: {count:,} x {side:,} rows, one block after another, rule of thumb",
    )
