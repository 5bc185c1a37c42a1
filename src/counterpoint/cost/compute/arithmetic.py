"""How many scalar instructions a kernel of XLA's own issues: what bounds it if memory does not."""

from __future__ import annotations

from typing import Final

from counterpoint.hlo import Instruction, Program

_WEIGHTS: Final = {
    "exponential": 10, "exponential-minus-one": 18, "log": 14, "log-plus-one": 20, "tanh": 16,
    "logistic": 22, "sine": 30, "cosine": 30, "tan": 40, "erf": 25, "cbrt": 30, "atan2": 40,
    "power": 40, "divide": 10, "remainder": 20, "rsqrt": 6, "sqrt": 8,
    "rng-bit-generator": 40, "rng": 60, "rng-get-and-update-state": 1,
    "convert": 1, "multiply": 1, "add": 1, "subtract": 1, "select": 1, "compare": 1,
}  # fmt: skip
"""Instructions of one element, as XLA's approximations have them; rules of thumb."""
_FREE_WORDS: Final = (
    "parameter constant tuple get-tuple-element bitcast broadcast reshape iota copy"
)
_FREE: Final = frozenset(_FREE_WORDS.split())
_ADDRESSES: Final = 3  # loading, storing and finding the place of one element
_DOUBLE: Final = 4  # double precision: 2 on data centre chips, 64 on others


def scalar_operations(program: Program, instruction: Instruction) -> float:
    """Instructions of one execution, over all threads."""
    inside = program.body(instruction) if instruction.calls else (instruction,)
    work = sum(_of(program, it) for it in inside)
    return work + _written(program, instruction) * _ADDRESSES


def _written(program: Program, instruction: Instruction) -> int:
    """Elements written: of an update in place only what changes."""
    inside = (instruction, *program.body(instruction))
    updates = [_elements(program, it) for it in inside if it.opcode == "dynamic-update-slice"]
    if updates:
        return sum(updates)
    return max((leaf.elements for leaf in instruction.shape.leaves), default=0)


def _elements(program: Program, it: Instruction) -> int:
    """Elements that an instruction computes."""
    operands = [one.shape.elements for one in program.operands(it)]
    if it.opcode == "dynamic-update-slice" and len(operands) > 1:
        return operands[1]
    if it.opcode in ("reduce", "reduce-window", "scatter"):
        return max(operands, default=it.shape.elements)
    return it.shape.elements


def _of(program: Program, it: Instruction) -> float:
    if it.opcode in _FREE:
        return 0.0
    if it.opcode == "fusion":
        return scalar_operations(program, it)
    weight = _WEIGHTS.get(it.opcode, 1)
    wide = any(leaf.dtype in ("f64", "c128") for leaf in it.shape.leaves)
    return float(_elements(program, it) * weight * (_DOUBLE if wide else 1))
