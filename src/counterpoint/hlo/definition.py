"""Where the function is defined that a program was traced from.

Programs bear their function's name, and so do those of two lambdas. JAX records the stack of calls
behind each instruction: the lines at which it was inside of that function tell functions of one
name apart, whatever they call in turn.
"""

from __future__ import annotations

import re
from typing import Final

from counterpoint.hlo.model.program import Program

_TRACED: Final = re.compile(r"jit\(([^()]+)\)")
_ALIKE: Final = 0.5
"""Least share of lines that two builds of one function have in common."""


def definition(program: Program) -> frozenset[tuple[str, int]]:
    """Return the file and the lines of the program's function; empty if it has no stacks."""
    lines: set[tuple[str, int]] = set()
    seen: set[int] = set()
    for instruction in program.instructions:
        traced = _TRACED.match(instruction.op_name)
        if traced is None or instruction.stack_frame_id in seen:
            continue
        seen.add(instruction.stack_frame_id)
        stack = program.stack(instruction)
        own = [call for call in stack if call.function.rpartition(".")[2] == traced[1]]
        if own:
            lines.add((own[-1].file, own[-1].line))  # the outermost: it may call itself
    return frozenset(lines)


def defined_at(program: Program) -> tuple[str, int] | None:
    """Return the file and the first line of the program's function; None if it has no stacks."""
    return min(definition(program), default=None)


def same_definition(one: Program, other: Program) -> bool | None:
    """Return whether two programs of one name are of one function; None: they do not tell."""
    mine, theirs = definition(one), definition(other)
    if not mine or not theirs:
        return None
    return len(mine & theirs) >= _ALIKE * min(len(mine), len(theirs))
