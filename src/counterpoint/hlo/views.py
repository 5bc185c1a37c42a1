"""Views: instructions that pass a value on, and compute and move nothing."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program

__all__ = ["VIEWS", "writer_of"]

VIEWS: Final = ("bitcast", "get-tuple-element", "tuple", "opt-barrier", "optimization-barrier")
_DEEPEST: Final = 32


def writer_of(
    program: Program, instruction: Instruction, through: Collection[str] = VIEWS
) -> Instruction | None:
    """Return the work, or the parameter, whose value an instruction reads first.

    None if it reads nothing, or if too many views are between them.
    """
    value = next(iter(program.operands(instruction)), None)
    parts: list[int] = []
    for _ in range(_DEEPEST):
        if value is None or value.opcode not in through:
            return value
        if value.opcode == "get-tuple-element":
            parts.append(value.tuple_index or 0)
        part = parts.pop() if value.opcode == "tuple" and parts else 0
        value = next(iter(program.operands(value)[part:]), None)
    return None
