"""A key that identifies an instruction across two compiles of one workload.

Instruction names change with every flag; an instruction's source and computation do not. Equal
instructions are distinguished by their order in the schedule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from counterpoint.hlo.model.instruction import Computation, Instruction
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.origin.provenance import Phase, provenance

_KEYS = "stable_keys"


@dataclass(frozen=True, slots=True)
class StableKey:
    """Scope with primitive, phase, opcode, operand and result shapes, and number among equals."""

    scope: str
    phase: Phase
    opcode: str
    shapes: str
    occurrence: int


_Keys = dict[str, dict[str, StableKey]]


def stable_key(program: Program, instruction: Instruction) -> StableKey:
    """Return the key of an instruction; it is unique among the launched ones.

    Inside a fusion, equal instructions are counted within the fusion.
    """
    if _KEYS not in program.answers:
        program.answers[_KEYS] = {}
        _number(program, launched(program))
    keys: _Keys = program.answers[_KEYS]
    if instruction.computation not in keys:
        _number(program, [program.computations[instruction.computation]])
    return keys[instruction.computation][instruction.name]


def _number(program: Program, computations: Iterable[Computation]) -> None:
    """Assign a key to every instruction, in schedule order."""
    seen: Counter[tuple[str, Phase, str, str]] = Counter()
    for computation in computations:
        keys: dict[str, StableKey] = {}
        program.answers[_KEYS][computation.name] = keys
        for instruction in computation.instructions:
            parts = _without_occurrence(program, instruction)
            keys[instruction.name] = StableKey(*parts, occurrence=seen[parts])
            seen[parts] += 1


def _without_occurrence(program: Program, it: Instruction) -> tuple[str, Phase, str, str]:
    where = provenance(program, it)
    scope = f"{where.scope}/{where.primitive}" if where.scope else where.primitive
    reads = ", ".join(str(operand.shape) for operand in program.operands(it))
    return scope, where.phase, it.opcode, f"({reads}) -> {it.shape}"
