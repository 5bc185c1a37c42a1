"""The origin of an instruction: scope, source line, phase, and a key that survives a recompile.

The source line is the innermost frame outside JAX, Flax, the frameworks of trainers and similar
libraries, and outside Python's standard library; if there is no such frame, the innermost one. A
program without named scopes (Flax NNX, Equinox) has the classes of the modules on its stack.
Instruction names change with every flag; an instruction's source and computation do not, and equal
instructions are distinguished by their order in the schedule.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cache, lru_cache
from typing import cast

from counterpoint.core.frozen import frozen
from counterpoint.hlo.model.instruction import Computation, Instruction
from counterpoint.hlo.model.program import Frame, Program, cached_on_program, launched
from counterpoint.hlo.schedule import in_loop, is_done, start_of

__all__ = ["Phase", "StableKey", "phase_of_name", "provenance", "scope", "stable_key"]


_PARAMETERS = re.compile(r"\[[^\[\]]*\]")
_CALL = re.compile(r"(\w+)\((.*)\)")
_DROPPED_CALLS = ("jit", "pjit", "pmap", "xmap", "xla_call")
_KEPT_CALLS = ("jvp", "transpose", "vmap", "remat", "checkpoint", "shard_map", "custom_jvp",
               "custom_vjp", "batch", "linearize")  # fmt: skip
_MACHINERY_WORDS = (
    "while body cond scan closed_call checkpoint remat remat2 rematted_computation shard_map pjit "
    "core_call core_closed_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr custom_lin "
    "xla_call main pmap smap manual_computation custom_partitioning eval_jaxpr"
)
_MACHINERY = frozenset(_MACHINERY_WORDS.split())
_BRANCH = re.compile(r"branch_\d+_fun|cond/branch_\d+")
# Remembered op_names: a module of 40,000 instructions has 3,000 different ones.
_NAMES = 16384


@frozen
class Scope:
    """The user's path, and the primitive at its end."""

    path: str
    primitive: str


@lru_cache(maxsize=_NAMES)
def scope(op_name: str) -> Scope:
    """Return the readable part of an op_name; of merged names, of the first.

    JAX writes the path of named scopes with its own machinery between them:

        jit(step)/transpose(jvp(Model))/while/body/closed_call/checkpoint/layer/mlp/dot_general
        -> scope Model/layer/mlp, primitive dot_general

    When XLA merges instructions it merges their names, as `a;b` or `common/(x:y)`.
    """
    name = names(op_name)[0]
    if "/" not in name and not _CALL.fullmatch(name):
        # The name of an argument: a parameter has nothing else.
        return Scope("", name)
    *above, last = _without_parameters(name).split("/")
    path = [word for part in above if (word := _cleaned(part))]
    if last in _MACHINERY or _CALL.fullmatch(last):
        word = _cleaned(last)
        return Scope("/".join([*path, word] if word else path), "" if word else last)
    return Scope("/".join(path), last)


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


def _without_parameters(name: str) -> str:
    """Remove `[axes=(0,)]` and similar, which may contain slashes."""
    while "[" in name:
        shorter = _PARAMETERS.sub("", name)
        if shorter == name:
            return name.partition("[")[0]
        name = shorter
    return name


def _cleaned(part: str) -> str:
    """Return one path component without JAX's wrapping; empty if nothing else is left."""
    while call := _CALL.fullmatch(part):
        if call[1] in _DROPPED_CALLS:
            return ""
        if call[1] not in _KEPT_CALLS:
            break
        part = call[2]
    return "" if part in _MACHINERY or _BRANCH.fullmatch(part) else part


_SEARCH_LIMIT = 64
_CONTAINERS = ("fusion", "call", "async-start", "call-start", "fusion-start")


@cached_on_program
def origin_instruction(program: Program, instruction: Instruction) -> Instruction | None:
    """Return the instruction whose op_name gives this one's origin; None if there is none.

    Compilers lose names: a fusion may have none while instructions inside it do, and a copy or a
    combined collective may stand between two that have one. Tried in order: the instruction itself,
    the heaviest named instruction that it calls (its root first), the nearest named producer, the
    nearest named user.
    """
    own = _own(program, instruction)
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


@lru_cache(maxsize=_NAMES)
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


_FRAMEWORK = re.compile(
    r"(site|dist)-packages/(jax|jaxlib|flax|optax|haiku|equinox|chex|orbax|diffrax|numpyro)/"
    r"|(^|/)jax/(_src|experimental|interpreters|numpy|lax|nn)/|(^|/)flax/(core|linen|nnx)/"
    r"|/lib/python3(\.\d+)?/(?!(site|dist)-packages)|^<"
)


@frozen
class Provenance:
    """The user code that became this instruction. Empty or None where unknown."""

    scope: str
    primitive: str
    op_name: str
    source: str | None
    stack: tuple[Frame, ...]
    phase: Phase
    in_loop: bool


@cached_on_program
def provenance(program: Program, instruction: Instruction) -> Provenance:
    """Return the origin of an instruction, from the instruction that carries its op_name."""
    source = origin_instruction(program, instruction) or instruction
    where = scope(source.op_name)
    stack = program.stack(source) or program.stack(instruction)
    frame = user_frame(stack)
    return Provenance(
        scope=where.path or _modules_of(stack),
        primitive=where.primitive,
        op_name=source.op_name,
        source=f"{frame.file}:{frame.line}" if frame else None,
        stack=stack,
        phase=phase(program, instruction),
        in_loop=in_loop(program, instruction.computation),
    )


def user_frame(stack: tuple[Frame, ...]) -> Frame | None:
    """Return the innermost frame of user code; without any, the innermost frame.

    A checkout may be named like a framework: if that leaves nothing, it counts as the user's.
    """
    users = [frame for frame in stack if not _is_library(frame.file)]
    models = (frame for frame in users if not _is_trainers_framework(frame.file))
    return next(models, users[0] if users else stack[0] if stack else None)


@lru_cache(maxsize=4096)
def _is_library(file: str) -> bool:
    """Return whether a file is of JAX or the like; a module names few files, in many stacks."""
    return _FRAMEWORK.search(file) is not None


@lru_cache(maxsize=4096)
def _is_trainers_framework(file: str) -> bool:
    # Only a program with stacks needs the trainers' files of data.
    from counterpoint.trainers import is_framework_file

    return is_framework_file(file)


_METHOD = re.compile(r"([A-Z]\w*)\.(?!<locals>)\w+$")
_MODULES_SHOWN = 6


@lru_cache(maxsize=4096)
def _modules_of(stack: tuple[Frame, ...]) -> str:
    """Return the classes whose methods are on the stack, the outermost first, as a scope.

    Libraries that name no scopes leave those: `Model.__call__` calling `Block.__call__` is
    Model/Block. Methods of one class that follow each other count once.
    """
    classes: list[str] = []
    for frame in reversed(stack):
        method = _METHOD.search(frame.function)
        if method is None or _is_library(frame.file) or _is_trainers_framework(frame.file):
            continue
        if not classes or classes[-1] != method[1]:
            classes.append(method[1])
    return "/".join(classes[-_MODULES_SHOWN:])


_KEYS = "stable_keys"


@frozen
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
    origin = provenance(program, it)
    # Of two compiles one may lack stacks: only the op_name counts.
    named = scope(origin.op_name)
    path = f"{named.path}/{named.primitive}" if named.path else named.primitive
    reads = ", ".join(str(operand.shape) for operand in program.operands(it))
    return path, origin.phase, it.opcode, f"({reads}) -> {it.shape}"
