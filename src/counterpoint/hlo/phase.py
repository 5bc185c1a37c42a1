"""The phase of an instruction: forward, backward, recomputation or optimizer.

JAX writes into an op_name whether work is differentiated, transposed or recomputed. Without a name,
the data flow decides: what depends on backward work. A function or a scope that is called transpose
is no such work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Final, cast

from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, cached_on_program
from counterpoint.hlo.op_names import NAMES_KEPT, has_path_name, named_instruction, names
from counterpoint.hlo.schedule import is_done, start_of

__all__ = ["BACKWARD", "Phase", "phase", "phase_of_name"]

BACKWARD: Final = "transpose(jvp("
"""In the names of what jax.grad and jax.vjp derive: they transpose what they differentiate."""


_REDUCING = ("all-reduce", "reduce-scatter")
_JOINING = ("bitcast", "concatenate", "copy", "reshape", "transpose", "tuple")

_DEEPEST = 4
"""Instructions between a gradient and its sum: a conversion, a product with a factor, a copy."""

_Flow = tuple[frozenset[str], frozenset[str]]


class Phase(StrEnum):
    FORWARD = "forward"
    BACKWARD = "backward"
    REMAT = "remat"
    OPTIMIZER = "optimizer"
    OTHER = "other"


@cached_on_program
def phase(program: Program, instruction: Instruction) -> Phase:
    """Return the phase of the step that it belongs to.

    By its op_name: a recomputation (`rematted_computation`, or a `.remat` clone by XLA) is remat,
    transposed work is backward, differentiated work (`jvp`) is forward. Other names are judged by
    data flow within their computation: what depends on backward work updates the parameters
    (optimizer), what forward or backward work depends on is forward, the rest is other. A reduction
    across devices that XLA combined from several has one of their names, or none: it has the phase
    of most of its bytes (gradients, though the loss is among them). A reduction of what backward
    work returns is backward, whoever asked for it. A
    computation without backward work has the phase of the instruction that calls it. In a module
    without any, nothing tells: it may be inference, an update, or the gradients of eager code, so
    all that has no name is other.
    """
    named = _of_most_bytes(program, instruction) or _named(program, instruction)
    if named:
        return named
    if not _is_training(program):
        return Phase.OTHER
    if _reduces_gradients(program, instruction):
        return Phase.BACKWARD
    return _by_flow(program, instruction, seen=frozenset())


@lru_cache(maxsize=NAMES_KEPT)
def phase_of_name(op_name: str) -> Phase | None:
    """Return the phase in an op_name; of merged names the most frequent, then the latest."""
    phases = Counter(phase for name in names(op_name) if (phase := _of_one(name)))
    order = (Phase.FORWARD, Phase.REMAT, Phase.BACKWARD)
    return max(
        phases, key=lambda candidate: (phases[candidate], order.index(candidate)), default=None
    )


def _of_one(name: str) -> Phase | None:
    if "rematted_computation" in name:
        return Phase.REMAT
    if BACKWARD in name:
        return Phase.BACKWARD
    return Phase.FORWARD if "jvp(" in name else None


def _named(program: Program, instruction: Instruction) -> Phase | None:
    if ".remat" in instruction.name:
        return Phase.REMAT
    source = named_instruction(program, instruction)
    return phase_of_name(source.op_name) if source else None


def _of_most_bytes(program: Program, instruction: Instruction) -> Phase | None:
    """Return the phase of most bytes of what XLA combined for one reduction across devices."""
    start = start_of(program, instruction) if is_done(instruction) else instruction
    if start is None:
        return None
    reduces = start.opcode.removesuffix("-start") in _REDUCING
    if not reduces and not _joins(program, start):
        return None
    pieces = _pieces(program, start)
    if len(pieces) < 2:
        return None
    sizes: Counter[Phase] = Counter()
    for piece in pieces:
        phase = _named(program, piece)
        if phase is not None:
            sizes[phase] += piece.shape.bytes
    return max(sizes, key=lambda each: sizes[each], default=None)


def _reduces_gradients(program: Program, instruction: Instruction) -> bool:
    """Return whether it sums over devices what backward work returns, as it is or scaled."""
    start = start_of(program, instruction) if is_done(instruction) else instruction
    if start is None or start.opcode.removesuffix("-start") not in _REDUCING:
        return False
    value = start
    for _ in range(_DEEPEST):
        sources = program.operands(value)
        if not sources:
            return False
        value = max(sources, key=lambda source: source.shape.bytes)
        if value.shape.elements != program.operands(start)[0].shape.elements:
            return False
        if _named(program, value) is Phase.BACKWARD:
            return True
    return False


def _pieces(program: Program, reader: Instruction) -> list[Instruction]:
    """Return the arrays that reach an instruction, through what only puts them together."""
    pieces: list[Instruction] = []
    front = program.operands(reader)
    seen: set[str] = set()
    while front:
        piece = front.pop()
        if piece.name in seen:
            continue
        seen.add(piece.name)
        if _joins(program, piece):
            front += program.operands(piece)
        else:
            pieces.append(piece)
    return pieces


def _joins(program: Program, instruction: Instruction) -> bool:
    """Return whether XLA joins arrays with it and computes nothing; what a program joins is named.

    That is so of a fusion, too, all of whose instructions do.
    """
    if instruction.opcode == "fusion":
        body = program.body(instruction)
        return all(it.opcode == "parameter" or _joins(program, it) for it in body)
    return instruction.opcode in _JOINING and not has_path_name(instruction)


def _is_training(program: Program) -> bool:
    key = "is_training"
    if key not in program.answers:
        program.answers[key] = any(
            BACKWARD in instruction.op_name for instruction in program.instructions
        )
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
        instruction.name: phase
        for instruction in instructions
        if (phase := _contains(program, instruction))
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
        phase for member in program.body(instruction) if (phase := _named(program, member))
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
