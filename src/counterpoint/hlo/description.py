"""Descriptions of instructions by the user's code that they came from."""

from __future__ import annotations

from pathlib import PurePath

from counterpoint.hlo.category import Category, category
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.op_names import has_path_name
from counterpoint.hlo.provenance import provenance, scope
from counterpoint.hlo.schedule import is_done, start_of

__all__ = ["describe"]

_HEAVY = (Category.MATMUL, Category.CONVOLUTION, Category.ATTENTION, Category.CUSTOM_CALL,
          Category.SORT, Category.REDUCTION, Category.SCATTER_GATHER)  # fmt: skip
_BYWORK = frozenset({
    "broadcast_in_dim", "convert_element_type", "reshape", "transpose", "squeeze", "expand_dims",
    "slice", "copy", "iota", "bitcast_convert_type", "stop_gradient", "while",
    "sharding_constraint",
})  # fmt: skip
_MOST_WORDS = 3


def describe(program: Program, instruction: Instruction) -> str:
    """Describe the user code that became this instruction."""
    where = provenance(program, instruction)
    description = _what(program, instruction, where.primitive)
    if where.scope:
        description += f" in {where.scope}"
    if where.source:
        description += f" ({PurePath(where.source).name})"
    return description


def _what(program: Program, instruction: Instruction, primitive: str) -> str:
    communication = collective(program, instruction)
    if communication:
        return f"{communication.kind} for {primitive}" if primitive else communication.kind
    waits_for = start_of(program, instruction) if is_done(instruction) else None
    words = _primitives(program, waits_for or instruction)
    if words:
        return "+".join(words[:_MOST_WORDS])
    return primitive or f"{instruction.opcode} of {instruction.shape}"


def _primitives(program: Program, instruction: Instruction) -> list[str]:
    """Return the primitives fused into it, heavy ones first, without bookkeeping."""
    if instruction.opcode not in ("fusion", "fusion-start"):
        return []
    named = [member for member in program.body(instruction) if has_path_name(member)]
    named.sort(key=lambda member: category(program, member) not in _HEAVY)
    words = list(dict.fromkeys(scope(member.op_name).primitive for member in named))
    return [word for word in words if word and word not in _BYWORK] or words[:1]
