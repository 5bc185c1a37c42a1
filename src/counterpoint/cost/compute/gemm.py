"""GEMMs of an instruction: sizes and types, from dots, cuBLAS calls and fusions around them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from counterpoint.cost.compute.backend_settings import settings_of
from counterpoint.hlo.category import Category, category
from counterpoint.hlo.model.instruction import Instruction, Shape, element_bits
from counterpoint.hlo.model.program import Program

_DEEPEST: Final = 4
_TYPES: Final = {"f64": "f64", "f32": "tf32", "bf16": "bf16", "f16": "f16"}
_COMPLEX: Final = {"c64": "tf32", "c128": "f64"}
_PASSES: Final = (("_X9", 9), ("_X6", 6), ("_X3", 3))
"""Algorithms that compute one product of a wide type from several of a narrow one."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """C[batch, m, n] = A[batch, m, k] B[batch, k, n], with operands of one type."""

    batch: int
    m: int
    n: int
    k: int
    dtype: str  # "bf16", "tf32", "f8": as in chips' rates
    out_bytes: int = 2  # of one element of the result

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def bytes(self) -> float:
        width = {"f64": 8, "f32": 4, "tf32": 4, "bf16": 2, "f16": 2, "f4": 0.5}.get(self.dtype, 1)
        read = (self.m + self.n) * self.k * width
        return self.batch * (read + self.m * self.n * self.out_bytes)

    def __str__(self) -> str:
        batch = f"{self.batch}x" if self.batch > 1 else ""
        return f"{batch}{self.m}x{self.n}x{self.k} {self.dtype}"


def gemms(program: Program, instruction: Instruction, depth: int = 0) -> Iterator[Gemm]:
    """Yield the GEMMs that an instruction runs; a fusion may have several."""
    opcode = instruction.opcode.removesuffix("-start")
    if opcode in ("fusion", "async") and depth < _DEEPEST:
        for called in instruction.calls:
            for inner in program.computations[called].instructions:
                yield from gemms(program, inner, depth + 1)
    elif category(program, instruction) is Category.MATMUL:
        yield from _gemm(program, instruction)


def _gemm(program: Program, instruction: Instruction) -> Iterator[Gemm]:
    lhs, rhs, result = _shapes(program, instruction)
    if lhs is None or rhs is None:
        return
    config = _gemm_settings(instruction)
    dims = _dimensions(instruction, config)
    grouped = "grouped" in instruction.custom_call_target.casefold()
    if dims is None or grouped or instruction.opcode in ("ragged-dot", "convolution"):
        yield from _unnamed(lhs, rhs, result, config)
        return
    contracting, batched = dims
    if any(dim >= len(lhs.dims) for dim in (*contracting, *batched)):
        return
    k = math.prod(lhs.dims[dim] for dim in contracting)
    batch = math.prod(lhs.dims[dim] for dim in batched)
    if k and batch:
        m, n = lhs.elements // (k * batch), rhs.elements // (k * batch)
        yield from _sized(batch, m, n, k, (lhs, rhs, result), config)


def _sized(
    batch: int, m: int, n: int, k: int, shapes: tuple[Shape, Shape, Shape], config: dict[str, Any]
) -> Iterator[Gemm]:
    if min(batch, m, n, k) < 1:
        return
    lhs, rhs, result = shapes
    dtype, times = _type(lhs.dtype, rhs.dtype, config)
    out = max(1, element_bits(result.dtype) // 8)
    yield Gemm(batch, m, n, k * times, dtype, out)


def _unnamed(
    lhs: Shape | None, rhs: Shape | None, result: Shape, config: dict[str, Any]
) -> Iterator[Gemm]:
    """Yield a GEMM without named dimensions, from sizes alone, grouped ones by their ranks."""
    if lhs is None or rhs is None or not result.elements:
        return
    shapes = (lhs, rhs, result)
    if len(lhs.dims) == 2 and len(rhs.dims) == 3:  # [m, k] by groups of [k, n]
        groups, k = rhs.dims[0], lhs.dims[1]
        yield from _sized(groups, -(-lhs.dims[0] // groups), rhs.elements // (groups * k or 1), k,
                         shapes, config)  # fmt: skip
    elif len(lhs.dims) == 2 and len(rhs.dims) == 2 and len(result.dims) == 3:
        groups, rows = result.dims[0], max(set(lhs.dims) & set(rhs.dims), default=lhs.dims[0])
        m, n = lhs.elements // rows, rhs.elements // rows
        yield from _sized(groups, m, n, -(-rows // groups), shapes, config)
    else:
        batch = _batch(lhs, rhs, result)
        k = math.isqrt(max(1, lhs.elements * rhs.elements // (result.elements * batch)))
        m, n = lhs.elements // (k * batch), rhs.elements // (k * batch)
        yield from _sized(batch, m, n, k, shapes, config)


def _batch(lhs: Shape, rhs: Shape, result: Shape) -> int:
    """Return the leading dimension, if all three are stacks of matrices."""
    stacked = all(len(shape.dims) == 3 for shape in (lhs, rhs, result))
    alike = stacked and lhs.dims[0] == rhs.dims[0] == result.dims[0]
    return max(1, lhs.dims[0]) if alike else 1


def _shapes(program: Program, instruction: Instruction) -> tuple[Shape | None, Shape | None, Shape]:
    """Return left, right and result: the first two operands that are matrices."""
    read = [
        operand.shape for operand in program.operands(instruction) if len(operand.shape.dims) >= 1
    ]
    result = next(instruction.shape.leaves, instruction.shape)
    padded = [*read[:2], None, None]
    return padded[0], padded[1], result


def _gemm_settings(instruction: Instruction) -> dict[str, Any]:
    settings = settings_of(instruction).get("gemm_backend_config")
    return cast(dict[str, Any], settings) if isinstance(settings, dict) else {}


def _dimensions(
    instruction: Instruction, config: dict[str, Any]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return contracting and batch dimensions of the left side."""
    if instruction.dot:
        return instruction.dot.lhs_contracting, instruction.dot.lhs_batch
    dims: Any = config.get("dot_dimension_numbers")
    try:
        contracting = tuple(int(dim) for dim in dims["lhs_contracting_dimensions"])
        return contracting, tuple(int(dim) for dim in dims.get("lhs_batch_dimensions", ()))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _type(lhs: str, rhs: str, config: dict[str, Any]) -> tuple[str, int]:
    """Return the type of the multiplication, and its number of passes."""
    wide = lhs if element_bits(lhs) >= element_bits(rhs) else rhs
    precision: Any = config.get("precision_config") or {}
    algorithm = str(precision.get("algorithm", ""))
    times = next((count for mark, count in _PASSES if algorithm.endswith(mark)), 1)
    if "BF16_BF16" in algorithm:
        return "bf16", times
    if wide in ("f32", "c64") and "HIGHEST" in (precision.get("operand_precision") or ()):
        return "f32", 4 if wide == "c64" else 1
    if wide in _TYPES:
        return _TYPES[wide], times
    bits = element_bits(wide)
    if wide.startswith("f"):
        return ("f4" if bits <= 4 else "f8"), times
    if wide in _COMPLEX:  # four real products each
        return _COMPLEX[wide], 4
    return ("s8" if bits <= 8 else "f32"), times
