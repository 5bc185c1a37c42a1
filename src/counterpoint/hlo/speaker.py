"""Which instruction speaks for another about where it comes from.

Compilers lose names: a fusion may have none while the instructions inside it do, and a copy or a
combined collective may stand between two that have one. In order: the instruction itself, the
heaviest named instruction it calls (its root first), the nearest named producer, the nearest
named user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from counterpoint.hlo.asyncs import is_done, start_of
from counterpoint.hlo.instruction import Instruction
from counterpoint.hlo.memory import remembered
from counterpoint.hlo.program import Program

_SEARCH_LIMIT = 64
_CONTAINERS = ("fusion", "call", "async-start", "call-start", "fusion-start")


@remembered
def speaker(program: Program, instruction: Instruction) -> Instruction | None:
    """The instruction whose op_name tells where this one comes from; None when none does."""
    own = _own(program, instruction)
    if own:
        return own
    return _nearest(program, instruction, program.operands) or _nearest(
        program, instruction, program.users
    )


def _own(program: Program, instruction: Instruction, depth: int = 0) -> Instruction | None:
    if tells(instruction):
        return instruction
    if is_done(instruction) and depth < 8:
        start = start_of(program, instruction)
        return _own(program, start, depth + 1) if start else None
    if instruction.opcode not in _CONTAINERS or not instruction.calls or depth > 8:
        return None
    root = program.root(instruction.calls[0])
    if root and tells(root):
        return root
    named = [it for it in program.body(instruction) if tells(it)]
    if named:
        return max(named, key=_weight)
    inner = (_own(program, it, depth + 1) for it in program.body(instruction) if it.calls)
    return next((found for found in inner if found), None)


def tells(instruction: Instruction) -> bool:
    """Whether its op_name is a path: a parameter's is its argument, others are XLA's own names."""
    return "/" in instruction.op_name and instruction.opcode not in ("parameter", "constant")


def _weight(instruction: Instruction) -> tuple[bool, int]:
    return instruction.opcode in ("dot", "convolution", "custom-call"), instruction.shape.bytes


def _nearest(
    program: Program,
    instruction: Instruction,
    neighbours: Callable[[Instruction], Iterable[Instruction]],
) -> Instruction | None:
    """Breadth first, a few dozen instructions far."""
    front = [instruction]
    seen = {instruction.name}
    while front and len(seen) < _SEARCH_LIMIT:
        reached: list[Instruction] = []
        for it in (near for one in front for near in neighbours(one)):
            if it.name in seen:
                continue
            seen.add(it.name)
            found = _own(program, it)
            if found:
                return found
            if it.opcode not in ("parameter", "while", "conditional"):
                reached.append(it)
        front = reached
    return None
