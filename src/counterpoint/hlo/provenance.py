"""The provenance of an instruction: scope, source line, and a key that survives a recompile.

The source line is the innermost frame outside JAX, Flax, the frameworks of trainers and similar
libraries, and outside Python's standard library; if there is no such frame, the innermost one. A
program without named scopes (Flax NNX, Equinox) has the classes of the modules on its stack.
Instruction names change with every flag; an instruction's source and computation do not, and equal
instructions are distinguished by their order in the schedule.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from counterpoint.hlo.model.instruction import Computation, Instruction
from counterpoint.hlo.model.program import Program, cached_on_program, launched
from counterpoint.hlo.model.stack import Frame
from counterpoint.hlo.op_names import NAMES_KEPT, named_instruction, names
from counterpoint.hlo.phase import Phase, phase
from counterpoint.hlo.schedule import in_loop

__all__ = ["Provenance", "Scope", "StableKey", "provenance", "scope", "stable_key", "user_frame"]


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


@dataclass(frozen=True, slots=True)
class Scope:
    """The user's path, and the primitive at its end."""

    path: str
    primitive: str


@lru_cache(maxsize=NAMES_KEPT)
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


# Where packages are installed; in a checkout, where `jax` holds `jax`. A program may be in a
# directory of that name, too, and have an `nn` or an `experimental` there.
_FRAMEWORK = re.compile(
    r"(site|dist)-packages/"
    r"(jax|jaxlib|flax|optax|haiku|equinox|chex|orbax|diffrax|numpyro|keras)/"
    r"|(^|/)jax/_src/|(^|/)jax/jax/(experimental|interpreters|numpy|lax|nn)/"
    r"|(^|/)flax/flax/(core|linen|nnx)/"
    r"|/lib/python3(\.\d+)?/(?!(site|dist)-packages)|^<"
)


@dataclass(frozen=True, slots=True)
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
    """Return the provenance of an instruction, from the instruction that carries its op_name."""
    source = named_instruction(program, instruction) or instruction
    where = scope(source.op_name)
    stack = program.stack(source) or program.stack(instruction)
    frame = user_frame(stack)
    return Provenance(
        scope=where.path or _modules_of(stack, _traced(source.op_name)),
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


_METHOD = re.compile(r"(?:.*\.)?[^A-Z.]*+([A-Z]\w*+)\.\w++")
_MODULES_SHOWN = 6


@lru_cache(maxsize=4096)
def _modules_of(stack: tuple[Frame, ...], traced: str) -> str:
    """Return the classes whose methods are on the stack, the outermost first, as a scope.

    Libraries that name no scopes leave those: `Model.__call__` calling `Block.__call__` is
    Model/Block. Methods of one class that follow each other count once. What calls the traced
    function, such as a trainer or a notebook's kernel, is no part of the model.
    """
    classes: list[str] = []
    for frame in _within(stack, traced):
        method = _METHOD.fullmatch(frame.function)
        if method is None or _is_library(frame.file) or _is_trainers_framework(frame.file):
            continue
        if not classes or classes[-1] != method[1]:
            classes.append(method[1])
    return "/".join(classes[-_MODULES_SHOWN:])


_TRACED = re.compile(r"p?jit\(([^()]++)\)")
_MODULE = re.compile(r"<module>|<cell line: \d++>.*")


def _traced(op_name: str) -> str:
    """Return the name of the function that was jitted; empty if it has none."""
    match = _TRACED.match(names(op_name)[0])
    return match[1] if match else ""


def _within(stack: tuple[Frame, ...], traced: str) -> list[Frame]:
    """Return the frames that the traced function called, or else a module, the outermost first."""
    frames = list(reversed(stack))
    modules = [at for at, frame in enumerate(frames) if _MODULE.fullmatch(frame.function)]
    frames = frames[modules[-1] + 1 :] if modules else frames
    calls = (at for at, frame in enumerate(frames) if frame.function.split(".")[-1] == traced)
    first = next(calls, None)
    return frames if first is None else frames[first + 1 :]


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
    # Of two compiles one may lack stacks: only the op_name counts.
    named = scope(where.op_name)
    path = f"{named.path}/{named.primitive}" if named.path else named.primitive
    reads = ", ".join(str(operand.shape) for operand in program.operands(it))
    return path, where.phase, it.opcode, f"({reads}) -> {it.shape}"
