"""Remember an answer about an instruction, so that asking twice costs nothing.

Answers live with their Program and go with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast

from counterpoint.hlo.instruction import Instruction
from counterpoint.hlo.program import Program

Answer = TypeVar("Answer")
Question = Callable[[Program, Instruction], Answer]


def remembered(question: Question[Answer]) -> Question[Answer]:
    """Ask once per instruction of a Program."""

    @wraps(question)
    def ask(program: Program, instruction: Instruction) -> Answer:
        key = (question, instruction.computation, instruction.name)
        if key not in program.answers:
            program.answers[key] = question(program, instruction)
        return cast(Answer, program.answers[key])

    return ask
