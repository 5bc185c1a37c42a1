"""An instruction in the user's words: `dot_general+add in decoder/mlp (model.py:88)`."""

from __future__ import annotations

from pathlib import PurePath

from counterpoint.hlo.asyncs import is_done, start_of
from counterpoint.hlo.category import Category, category
from counterpoint.hlo.collective import collective
from counterpoint.hlo.instruction import Instruction
from counterpoint.hlo.program import Program
from counterpoint.hlo.provenance import provenance
from counterpoint.hlo.scope import scope
from counterpoint.hlo.speaker import tells

_HEAVY = (Category.MATMUL, Category.CONVOLUTION, Category.ATTENTION, Category.CUSTOM_CALL,
          Category.SORT, Category.REDUCTION, Category.SCATTER_GATHER)  # fmt: skip
_BYWORK = frozenset({
    "broadcast_in_dim", "convert_element_type", "reshape", "transpose", "squeeze", "expand_dims",
    "slice", "copy", "iota", "bitcast_convert_type", "stop_gradient", "while",
    "sharding_constraint",
})  # fmt: skip
_MOST_WORDS = 3


def describe(program: Program, instruction: Instruction) -> str:
    """What the user wrote that became this instruction."""
    where = provenance(program, instruction)
    said = _what(program, instruction, where.primitive)
    if where.scope:
        said += f" in {where.scope}"
    if where.source:
        said += f" ({PurePath(where.source).name})"
    return said


def _what(program: Program, instruction: Instruction, primitive: str) -> str:
    found = collective(program, instruction)
    if found:
        return f"{found.kind} for {primitive}" if primitive else found.kind
    waits_for = start_of(program, instruction) if is_done(instruction) else None
    words = _primitives(program, waits_for or instruction)
    if words:
        return "+".join(words[:_MOST_WORDS])
    return primitive or f"{instruction.opcode} of {instruction.shape}"


def _primitives(program: Program, instruction: Instruction) -> list[str]:
    """The primitives fused into it, the heavy ones first, without mere bookkeeping."""
    if instruction.opcode not in ("fusion", "fusion-start"):
        return []
    named = [it for it in program.body(instruction) if tells(it)]
    named.sort(key=lambda it: category(program, it) not in _HEAVY)
    words = list(dict.fromkeys(scope(it.op_name).primitive for it in named))
    return [word for word in words if word and word not in _BYWORK] or words[:1]
