"""Validation of a Program by its reader, so that every walk over it ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from counterpoint.core import InputError
from counterpoint.hlo.model.instruction import Computation, Instruction
from counterpoint.hlo.model.program import RUNNING, Program

# Real modules stay below twenty levels; functions that traverse a Program recurse once per level.
_DEEPEST_CALLS = 100

_OPERANDS: Final = {"get-tuple-element": 1, "while": 1, "dynamic-slice": 1}
_CALLS: Final = {"while": 2}
"""How many at least: what walks over a Program takes them as given."""

_MOST_INSTRUCTIONS: Final = 10_000_000
_MOST_DEVICES: Final = 1 << 20
"""Most that one pass through a Program may run, loops counted once; real ones run thousands."""


def validate_program(program: Program) -> Program:
    """Validate a Program and sort its computations, callees before callers.

    Afterward operands precede their users in the same computation, every name refers to something,
    each instruction has the operands and calls that its opcode needs, a fusion or call has an
    operand for each parameter of what it calls, an element of a tuple is one that the tuple has,
    and no computation calls itself, so every walk over a Program ends.
    """
    # The groups of a collective are lists of all devices.
    if min(program.num_partitions, program.num_replicas) < 1:
        raise _damaged(program, "it has no partition or no replica")
    if program.num_partitions * program.num_replicas > _MOST_DEVICES:
        raise _damaged(program, f"it is made for more than {_MOST_DEVICES:,} devices")
    if program.entry not in program.computations:
        raise _damaged(program, f"its entry computation {program.entry!r} is missing")
    parameters = {name: _parameters(body) for name, body in program.computations.items()}
    for computation in program.computations.values():
        _check_order(program, computation)
        _check_arguments(program, computation, parameters)
    order = _order_of_calls(program)
    _check_size(program, order)
    return replace(program, computations={name: program.computations[name] for name in order})


def _check_size(program: Program, order: Iterable[str]) -> None:
    """Refuse calls that double at each level: nothing could walk through them."""
    sizes: dict[str, int] = {}
    for name in order:
        instructions = program.computations[name].instructions
        sizes[name] = len(instructions) + sum(
            sizes[callee]
            for instruction in instructions
            if instruction.opcode in RUNNING
            for callee in instruction.calls
        )
        if sizes[name] > _MOST_INSTRUCTIONS:
            raise _damaged(program, f"computation {name} runs {sizes[name]:,} instructions")


def _check_order(program: Program, computation: Computation) -> None:
    seen: dict[str, Instruction] = {}
    for instruction in computation.instructions:
        missing = next((name for name in instruction.operands if name not in seen), None)
        if missing is not None:
            raise _damaged(
                program, f"{instruction.name} reads {missing}, which does not precede it"
            )
        if why := _unsound(instruction, seen):
            raise _damaged(program, f"{instruction.name} {why}")
        seen[instruction.name] = instruction
    if computation.root not in seen:
        raise _damaged(program, f"computation {computation.name} has no root")


def _parameters(computation: Computation) -> int:
    """Return how many arguments a computation needs."""
    numbers = (it.parameter_number for it in computation.instructions)
    return max((number + 1 for number in numbers if number is not None), default=0)


def _check_arguments(
    program: Program, computation: Computation, parameters: Mapping[str, int]
) -> None:
    """Refuse fusions and calls that lack an argument of what they call."""
    for it in computation.instructions:
        if it.opcode in ("fusion", "call") and it.calls:
            needs = parameters.get(it.calls[0], 0)
            if len(it.operands) < needs:
                why = f"{it.name} passes {len(it.operands)} of {needs} arguments to {it.calls[0]}"
                raise _damaged(program, why)


def _unsound(instruction: Instruction, seen: Mapping[str, Instruction]) -> str | None:
    """Return what the instruction lacks, or which part of a tuple it reads that is not there."""
    opcode, operands = instruction.opcode, instruction.operands
    if len(operands) < _OPERANDS.get(opcode, 0):
        return f"is a {opcode} of {len(operands)} operands"
    if len(instruction.calls) < _CALLS.get(opcode, 0):
        return f"is a {opcode} that calls {len(instruction.calls)} computations"
    if opcode == "get-tuple-element":
        at, whole = instruction.tuple_index or 0, seen[operands[0]]
        if not 0 <= at < len(whole.shape.parts):
            return f"reads element {at} of {whole.name}, which has {len(whole.shape.parts)}"
    return None


def _order_of_calls(program: Program) -> dict[str, None]:
    """Traverse the calls depth first; meeting a computation inside itself is a cycle."""
    calls = {
        name: [
            callee
            for instruction in reversed(computation.instructions)
            for callee in instruction.calls
        ]
        for name, computation in program.computations.items()
    }
    done: dict[str, None] = {}
    for start in (program.entry, *sorted(calls)):
        path: dict[str, list[str]] = {}
        name: str | None = start
        while name is not None:
            if name not in path and name not in done:
                path[name] = list(calls[name])
            name = _step(program, path, done)
    return done


def _step(program: Program, path: dict[str, list[str]], done: dict[str, None]) -> str | None:
    """Return the next computation to enter, after leaving the finished ones."""
    while path:
        name, left = next(reversed(path.items()))
        if not left:
            done[name] = None
            del path[name]
            continue
        callee = left.pop()
        if callee in path:
            raise _damaged(program, f"computation {callee} calls itself")
        if callee not in program.computations:
            raise _damaged(program, f"computation {callee} is called but missing")
        if len(path) > _DEEPEST_CALLS:
            raise _damaged(program, f"its computations call each other {len(path)} deep")
        if callee not in done:
            return callee
    return None


def _damaged(program: Program, why: str) -> InputError:
    return InputError(
        f"HLO module {program.name!r} is damaged", why=why, next="write the dump or profile again"
    )
