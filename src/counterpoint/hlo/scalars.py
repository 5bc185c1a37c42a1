"""Scalars: integers that instructions compute, as far as they are known before a program runs.

A scalar may be affine: the element in which a loop counts, plus a constant.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.hlo.model.instruction import Instruction, element_bits

_COMPARED: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}


@dataclass(frozen=True, slots=True)
class Affine:
    """An element of a loop's tuple, plus a constant."""

    element: int
    plus: int = 0


Scalar = int | Affine | None
"""None: not known."""


def _divided(left: int, right: int) -> int | None:
    """Divide toward zero, as XLA does; what it makes of a division by zero counts no loop."""
    if right == 0:
        return None
    whole = abs(left) // abs(right)
    return whole if (left < 0) is (right < 0) else -whole


def _remainder(left: int, right: int) -> int | None:
    whole = _divided(left, right)
    return None if whole is None else left - whole * right


_OF_TWO: Final[Mapping[str, Callable[[int, int], int | None]]] = {
    "add": lambda left, right: left + right,
    "subtract": lambda left, right: left - right,
    "multiply": lambda left, right: left * right,
    "divide": _divided,
    "remainder": _remainder,
    "minimum": min,
    "maximum": max,
    "and": lambda left, right: left & right,
    "or": lambda left, right: left | right,
}


def computed(it: Instruction, operands: Sequence[Scalar]) -> Scalar:
    """Return the value of an instruction for these operands, if it fits the element type."""
    value = _computed(it, operands)
    if isinstance(value, int) and not _fits(value, it.shape.dtype):
        return None
    return value


def _fits(value: int, dtype: str) -> bool:
    bits = element_bits(dtype)
    if dtype == "pred":
        return value in (0, 1)
    if dtype.startswith("s"):
        return -(1 << (bits - 1)) <= value < 1 << (bits - 1)
    return dtype.startswith("u") and 0 <= value < 1 << bits


def _computed(  # noqa: PLR0911 - one for each kind
    it: Instruction, operands: Sequence[Scalar]
) -> Scalar:
    if it.opcode == "add" and len(operands) == 2:
        return _sum(*operands)
    if it.opcode == "subtract" and len(operands) == 2 and isinstance(operands[1], int):
        return _sum(operands[0], -operands[1])
    if it.opcode == "select" and len(operands) == 3 and isinstance(operands[0], int):
        return operands[1] if operands[0] else operands[2]
    known = [operand for operand in operands if isinstance(operand, int)]
    if len(known) != len(operands):
        return None
    if it.opcode == "negate" and len(known) == 1:
        return -known[0]
    if it.opcode == "clamp" and len(known) == 3:
        return min(max(known[0], known[1]), known[2])
    if it.opcode == "compare" and len(known) == 2 and it.comparison in _COMPARED:
        return int(_COMPARED[it.comparison](*known))
    two = _OF_TWO.get(it.opcode)
    return two(*known) if two and len(known) == 2 else None


def _sum(left: Scalar, right: Scalar) -> Scalar:
    if isinstance(right, Affine):
        left, right = right, left
    if not isinstance(right, int) or left is None:
        return None
    return left + right if isinstance(left, int) else Affine(left.element, left.plus + right)
