"""The phase of an instruction, and the instruction whose name tells where it comes from.

JAX writes into an op_name whether work is differentiated, transposed or recomputed. Where compilers
lost the name, the data flow has it: the nearest instruction with a name, and what depends on
backward work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cache, lru_cache
from typing import Final, cast

from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, cached_on_program
from counterpoint.hlo.schedule import is_done, start_of

__all__ = [
    "NAMES_KEPT",
    "Phase",
    "has_path_name",
    "names",
    "origin_instruction",
    "phase",
    "phase_of_name",
]

NAMES_KEPT: Final = 16384
"""Remembered op_names: a module of 40,000 instructions has 3,000 different ones."""


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


_SEARCH_LIMIT = 64
_CONTAINERS = ("fusion", "call", "async-start", "call-start", "fusion-start")


@cached_on_program
def origin_instruction(program: Program, instruction: Instruction) -> Instruction | None:
    """Return the instruction whose op_name gives this one's origin; None if there is none.

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
    return next((found for found in inner if found), None)


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
                found = _own_or_inner(program, candidate)
                if found:
                    return found
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


class Phase(StrEnum):
    FORWARD = "forward"
    BACKWARD = "backward"
    REMAT = "remat"
    OPTIMIZER = "optimizer"
    OTHER = "other"


_Flow = tuple[frozenset[str], frozenset[str]]


@cached_on_program
def phase(program: Program, instruction: Instruction) -> Phase:
    """Return the phase of the step that it belongs to.

    By its op_name: a recomputation (`rematted_computation`, or a `.remat` clone by XLA) is remat,
    transposed work is backward, differentiated work (`jvp`) is forward. Other names are judged by
    data flow within their computation: what depends on backward work updates the parameters
    (optimizer), what forward or backward work depends on is forward, the rest is other. A
    computation without backward work has the phase of the instruction that calls it. A module
    without any is inference, all forward; a module without op_names is all other.
    """
    named = _named(program, instruction)
    if named:
        return named
    if not _is_training(program):
        return Phase.FORWARD if _has_names(program) else Phase.OTHER
    return _by_flow(program, instruction, seen=frozenset())


@lru_cache(maxsize=NAMES_KEPT)
def phase_of_name(op_name: str) -> Phase | None:
    """Return the phase in an op_name; of merged names the most frequent, then the latest."""
    phases = Counter(found for name in names(op_name) if (found := _of_one(name)))
    order = (Phase.FORWARD, Phase.REMAT, Phase.BACKWARD)
    return max(
        phases, key=lambda candidate: (phases[candidate], order.index(candidate)), default=None
    )


def _of_one(name: str) -> Phase | None:
    if "rematted_computation" in name:
        return Phase.REMAT
    if "transpose(" in name:
        return Phase.BACKWARD
    return Phase.FORWARD if "jvp(" in name else None


def _named(program: Program, instruction: Instruction) -> Phase | None:
    if ".remat" in instruction.name:
        return Phase.REMAT
    source = origin_instruction(program, instruction)
    return phase_of_name(source.op_name) if source else None


def _is_training(program: Program) -> bool:
    key = "is_training"
    if key not in program.answers:
        program.answers[key] = any(
            "transpose(" in instruction.op_name for instruction in program.instructions
        )
    return bool(program.answers[key])


def _has_names(program: Program) -> bool:
    key = "has_op_names"
    if key not in program.answers:
        program.answers[key] = any(instruction.op_name for instruction in program.instructions)
    return bool(program.answers[key])


def _by_flow(program: Program, instruction: Instruction, seen: frozenset[str]) -> Phase:
    computation = instruction.computation
    after, before = _flow(program, computation)
    if after or before:
        if instruction.name in after:
            return Phase.OPTIMIZER
        return Phase.FORWARD if instruction.name in before else Phase.OTHER
    callers = program.callers(computation)
    if not callers or computation in seen:
        return Phase.OTHER
    named = _named(program, callers[0])
    return named or _by_flow(program, callers[0], seen | {computation})


def _flow(program: Program, computation: str) -> _Flow:
    """Return what depends on backward work, and what differentiated work depends on."""
    key = ("flow", computation)
    if key not in program.answers:
        program.answers[key] = _reach(program, computation)
    return cast(_Flow, program.answers[key])


def _reach(program: Program, computation: str) -> _Flow:
    instructions = program.computations[computation].instructions
    phases = {
        instruction.name: found
        for instruction in instructions
        if (found := _contains(program, instruction))
    }
    if Phase.BACKWARD not in phases.values():
        return frozenset(), frozenset()
    backward = [
        instruction
        for instruction in instructions
        if phases.get(instruction.name) is Phase.BACKWARD
    ]
    either = [instruction for instruction in instructions if instruction.name in phases]
    return _closure(backward, program.users), _closure(either, program.operands)


def _contains(program: Program, instruction: Instruction) -> Phase | None:
    """Return the phase of an instruction; of a loop also from its body."""
    named = _named(program, instruction)
    if named or instruction.opcode not in ("while", "conditional", "call"):
        return named
    inner = Counter(
        found for member in program.body(instruction) if (found := _named(program, member))
    )
    if inner[Phase.BACKWARD]:
        return Phase.BACKWARD
    return max(inner, key=lambda candidate: inner[candidate], default=None)


def _closure(
    start: Iterable[Instruction], neighbors: Callable[[Instruction], Iterable[Instruction]]
) -> frozenset[str]:
    front = list(start)
    seen = {instruction.name for instruction in front}
    while front:
        for near in neighbors(front.pop()):
            if near.name not in seen:
                seen.add(near.name)
                front.append(near)
    return frozenset(seen)
