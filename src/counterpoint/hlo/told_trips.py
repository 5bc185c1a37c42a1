"""Trip counts that XLA does not know and someone else does: said by the user, or measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from counterpoint.hlo.loops import TOLD, mean_trips
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launched

__all__ = ["unknown_loops", "with_trips"]


def unknown_loops(program: Program) -> list[Instruction]:
    """Return the loops of the program whose trip count is unknown, outer ones first."""
    return [
        instruction
        for computation in launched(program)
        for instruction in computation.instructions
        if instruction.opcode == "while" and mean_trips(program, instruction) is None
    ]


def with_trips(program: Program, trips: Mapping[str, int]) -> Program:
    """Return the program with these trip counts, by the names of its loops."""
    if not trips:
        return program
    computations = {
        name: replace(
            computation,
            instructions=tuple(_told(it, trips.get(it.name)) for it in computation.instructions),
        )
        for name, computation in program.computations.items()
    }
    return replace(program, computations=computations, answers={})


def _told(instruction: Instruction, trips: int | None) -> Instruction:
    if trips is None:
        return instruction
    attributes = (*instruction.frontend_attributes, (TOLD, str(trips)))
    return replace(instruction, frontend_attributes=attributes)
