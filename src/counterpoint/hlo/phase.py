"""Which part of a training step an instruction belongs to.

By its op_name: a recomputation (`rematted_computation`, or XLA's own `.remat` clones) is remat,
what was transposed is backward, what was differentiated (`jvp`) is forward. A name that says none
of this is judged by data flow, within its computation: what depends on backward work updates the
parameters (optimizer), what forward or backward work depends on is forward, the rest is other. A
computation without any backward work is judged as the instruction that calls it; a module without
any is inference, all forward. A module without op_names tells nothing: it is all other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import cast

from counterpoint.hlo.instruction import Instruction
from counterpoint.hlo.memory import remembered
from counterpoint.hlo.program import Program
from counterpoint.hlo.scope import names
from counterpoint.hlo.speaker import speaker


class Phase(StrEnum):
    FORWARD = "forward"
    BACKWARD = "backward"
    REMAT = "remat"
    OPTIMIZER = "optimizer"
    OTHER = "other"


_Flow = tuple[frozenset[str], frozenset[str]]


@remembered
def phase(program: Program, instruction: Instruction) -> Phase:
    """The part of the step it belongs to."""
    named = _named(program, instruction)
    if named:
        return named
    if not _is_training(program):
        return Phase.FORWARD if _has_names(program) else Phase.OTHER
    return _by_flow(program, instruction, seen=frozenset())


def phase_of_name(op_name: str) -> Phase | None:
    """What an op_name says; of merged names the most frequent, then the latest."""
    said = Counter(found for name in names(op_name) if (found := _of_one(name)))
    order = (Phase.FORWARD, Phase.REMAT, Phase.BACKWARD)
    return max(said, key=lambda it: (said[it], order.index(it)), default=None)


def _of_one(name: str) -> Phase | None:
    if "rematted_computation" in name:
        return Phase.REMAT
    if "transpose(" in name:
        return Phase.BACKWARD
    return Phase.FORWARD if "jvp(" in name else None


def _named(program: Program, instruction: Instruction) -> Phase | None:
    if ".remat" in instruction.name:
        return Phase.REMAT
    source = speaker(program, instruction)
    return phase_of_name(source.op_name) if source else None


def _is_training(program: Program) -> bool:
    key = "is_training"
    if key not in program.answers:
        program.answers[key] = any("transpose(" in it.op_name for it in program.instructions)
    return bool(program.answers[key])


def _has_names(program: Program) -> bool:
    key = "has_op_names"
    if key not in program.answers:
        program.answers[key] = any(it.op_name for it in program.instructions)
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
    """What depends on backward work in a computation, and what differentiated work depends on."""
    key = ("flow", computation)
    if key not in program.answers:
        program.answers[key] = _reach(program, computation)
    return cast(_Flow, program.answers[key])


def _reach(program: Program, computation: str) -> _Flow:
    instructions = program.computations[computation].instructions
    said = {it.name: found for it in instructions if (found := _contains(program, it))}
    if Phase.BACKWARD not in said.values():
        return frozenset(), frozenset()
    backward = [it for it in instructions if said.get(it.name) is Phase.BACKWARD]
    either = [it for it in instructions if it.name in said]
    return _closure(backward, program.users), _closure(either, program.operands)


def _contains(program: Program, instruction: Instruction) -> Phase | None:
    """What an instruction says, a loop also through its body."""
    named = _named(program, instruction)
    if named or instruction.opcode not in ("while", "conditional", "call"):
        return named
    inner = Counter(found for it in program.body(instruction) if (found := _named(program, it)))
    if inner[Phase.BACKWARD]:
        return Phase.BACKWARD
    return max(inner, key=lambda it: inner[it], default=None)


def _closure(
    start: Iterable[Instruction], neighbours: Callable[[Instruction], Iterable[Instruction]]
) -> frozenset[str]:
    front = list(start)
    seen = {it.name for it in front}
    while front:
        for near in neighbours(front.pop()):
            if near.name not in seen:
                seen.add(near.name)
                front.append(near)
    return frozenset(seen)
