"""Op names: which names XLA merged into one, and whose name tells where an instruction comes from.

Where compilers lost the name, the data flow has it: the nearest instruction with a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, cached_on_program
from counterpoint.hlo.schedule import is_done, start_of

NAMES_KEPT: Final = 16384
"""Remembered op_names: a module of 40,000 instructions has 3,000 different ones."""

_SEARCH_LIMIT = 64
_CONTAINERS = ("fusion", "call", "async-start", "call-start", "fusion-start")


def names(op_name: str) -> list[str]:
    """Return the names that XLA merged into one; at least one."""
    merged = [part for name in op_name.split(";") for part in _alternatives(name)]
    return merged or [""]


def _alternatives(name: str) -> list[str]:
    """Split `a/(b:c)/d` into a/b/d and a/c/d, and `(b:c)/d` into b/d and c/d."""
    start = 0 if name.startswith("(") else name.find("/(") + 1
    if not start and not name.startswith("("):
        return [name] if name else []
    depth, begin, pieces = 0, start + 1, list[str]()
    for at in range(start, len(name)):
        symbol = name[at]
        depth += (symbol == "(") - (symbol == ")")
        if (symbol == ":" and depth == 1) or depth == 0:
            pieces.append(name[begin:at])
            begin = at + 1
        if depth == 0:
            break
    return [f"{name[:start]}{piece}{name[begin:]}" for piece in pieces] or [name]


@cached_on_program
def named_instruction(program: Program, instruction: Instruction) -> Instruction | None:
    """Return the instruction whose op_name says where this one comes from; None if there is none.

    Compilers lose names: a fusion may have none while instructions inside it do, and a copy or a
    combined collective may stand between two that have one. Tried in order: the instruction itself,
    the heaviest named instruction that it calls (its root first), a bitcast of its result, the
    nearest named producer, the nearest named user.
    """
    own = _own(program, instruction) or _left_on_bitcast(program, instruction)
    if own:
        return own
    return _nearest(program, instruction, program.operands) or _nearest(
        program, instruction, program.users
    )


def _own(program: Program, instruction: Instruction, depth: int = 0) -> Instruction | None:
    if has_path_name(instruction):
        return instruction
    if is_done(instruction) and depth < 8:
        start = start_of(program, instruction)
        return _own(program, start, depth + 1) if start else None
    if instruction.opcode not in _CONTAINERS or not instruction.calls or depth > 8:
        return None
    root = program.root(instruction.calls[0])
    if root and has_path_name(root):
        return root
    named = [member for member in program.body(instruction) if has_path_name(member)]
    if named:
        return max(named, key=_weight)
    inner = (
        _own(program, member, depth + 1) for member in program.body(instruction) if member.calls
    )
    return next((one for one in inner if one), None)


def _own_or_inner(program: Program, instruction: Instruction) -> Instruction | None:
    if has_path_name(instruction):
        return instruction
    return _known_inner(program, instruction) if _has_inner(instruction.opcode) else None


@cached_on_program
def _known_inner(program: Program, instruction: Instruction) -> Instruction | None:
    return _own(program, instruction)


@cache
def _has_inner(opcode: str) -> bool:
    """Return whether instructions with this opcode stand for others, which may have names."""
    return opcode in _CONTAINERS or opcode.endswith(("-done", "-update"))


def has_path_name(instruction: Instruction) -> bool:
    """Return whether its op_name is a path.

    A parameter's op_name is its argument, others are XLA's own names.
    """
    return "/" in instruction.op_name and instruction.opcode not in ("parameter", "constant")


def _weight(instruction: Instruction) -> tuple[bool, int]:
    return instruction.opcode in ("dot", "convolution", "custom-call"), instruction.shape.bytes


def _nearest(
    program: Program,
    instruction: Instruction,
    neighbors: Callable[[Instruction], Iterable[Instruction]],
) -> Instruction | None:
    """Search breadth first, up to a few dozen instructions."""
    front = [instruction]
    seen = {instruction.name}
    while front and len(seen) < _SEARCH_LIMIT:
        reached: list[Instruction] = []
        for node in front:
            for candidate in neighbors(node):
                if candidate.name in seen:
                    continue
                seen.add(candidate.name)
                own = _own_or_inner(program, candidate)
                if own:
                    return own
                if candidate.opcode not in ("parameter", "while", "conditional"):
                    reached.append(candidate)
        front = reached
    return None


def _left_on_bitcast(program: Program, instruction: Instruction) -> Instruction | None:
    """Return the bitcast that has the name of a product which became a library's call.

    Often it is fused with what reads the result.
    """
    if instruction.opcode != "custom-call":
        return None
    parts = (it for it in program.users(instruction) if it.opcode == "get-tuple-element")
    for result in (instruction, *parts):
        for user in program.users(result):
            for reader in _readers(program, user, result):
                if reader.opcode == "bitcast" and has_path_name(reader):
                    return reader
    return None


def _readers(program: Program, user: Instruction, result: Instruction) -> list[Instruction]:
    """Return a user of a result; of a fusion those of its instructions that read it."""
    if user.opcode != "fusion":
        return [user]
    at = [operand.name for operand in program.operands(user)].index(result.name)
    parameters = (it for it in program.body(user) if it.parameter_number == at)
    return [reader for parameter in parameters for reader in program.users(parameter)]
