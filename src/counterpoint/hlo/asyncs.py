"""Asynchronous instructions: which done belongs to which start, and what the start runs.

XLA has three ways of writing them: named pairs (`all-gather-start`, `copy-done`), sends and
receives, and the generic `async-start` that calls a computation. Where that computation is one
instruction, HLO text folds it into the start (`reduce-scatter-start`); `unwrap` does the same, so
that proto and text give the same Program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from counterpoint.hlo.instruction import Computation, Instruction
from counterpoint.hlo.program import Program

_GENERIC = ("async-start", "async-update", "async-done")


def async_pairs(program: Program) -> Mapping[str, str]:
    """Names of starts to names of their dones."""
    key = "async_pairs"
    if key not in program.answers:
        program.answers[key] = dict(_pairs(program))
    pairs: Mapping[str, str] = program.answers[key]
    return pairs


def start_of(program: Program, done: Instruction) -> Instruction | None:
    """The start which a done (or an update between) waits for."""
    seen: set[str] = set()
    while not is_start(done) and done.name not in seen:
        seen.add(done.name)
        operands = program.operands(done)
        if not is_done(done) or not operands:
            return None
        done = operands[0]
        if done.opcode in ("get-tuple-element", "bitcast", "optimization-barrier"):
            return None
    return done if is_start(done) else None


def is_start(instruction: Instruction) -> bool:
    return instruction.opcode.endswith("-start") or instruction.opcode in ("send", "recv")


def is_done(instruction: Instruction) -> bool:
    """Also true of the updates of a generic async instruction."""
    return instruction.opcode.endswith(("-done", "-update")) and (
        instruction.opcode != "dynamic-update"
    )


def _pairs(program: Program) -> Iterator[tuple[str, str]]:
    for instruction in program.instructions:
        if instruction.opcode.endswith("-done"):
            start = start_of(program, instruction)
            if start:
                yield start.name, instruction.name


def unwrap(program: Program) -> Program:
    """Fold computations of one instruction into the generic async instructions that call them."""
    folded = dict(_foldable(program))
    if not folded:
        return program
    kept = {
        name: _fold(computation, folded)
        for name, computation in program.computations.items()
        if name not in folded
    }
    starts = {
        inner.name: instruction.name
        for instruction in program.instructions
        if instruction.opcode == "async-start"
        and (inner := folded.get(instruction.calls[0] if instruction.calls else ""))
    }
    return replace(program, computations=kept, wrapped=starts, answers={})


def _foldable(program: Program) -> Iterator[tuple[str, Instruction]]:
    for instruction in program.instructions:
        if instruction.opcode != "async-start" or len(instruction.calls) != 1:
            continue
        called = program.computations[instruction.calls[0]]
        *parameters, root = called.instructions
        plain = all(it.opcode == "parameter" for it in parameters)
        if plain and root.name == called.root and root.operands == _names(parameters):
            yield called.name, root


def _names(parameters: list[Instruction]) -> tuple[str, ...]:
    ordered = sorted(parameters, key=lambda it: it.parameter_number or 0)
    return tuple(it.name for it in ordered)


def _fold(computation: Computation, folded: Mapping[str, Instruction]) -> Computation:
    runs: dict[str, Instruction] = {}
    for instruction in computation.instructions:
        if instruction.opcode in _GENERIC:
            called, source = (next(iter(n), "") for n in (instruction.calls, instruction.operands))
            inner = folded.get(called) or runs.get(source)
            if inner:
                runs[instruction.name] = inner
    if not runs:
        return computation
    instructions = tuple(
        _folded(it, runs[it.name]) if it.name in runs else it for it in computation.instructions
    )
    return replace(computation, instructions=instructions)


def _folded(outer: Instruction, inner: Instruction) -> Instruction:
    stage = outer.opcode.removeprefix("async")
    if stage != "-start":
        return replace(outer, opcode=inner.opcode + stage, calls=())
    return replace(
        inner,
        name=outer.name,
        opcode=inner.opcode + stage,
        shape=outer.shape,
        operands=outer.operands,
        computation=outer.computation,
        index=outer.index,
        op_name=outer.op_name or inner.op_name,
        source_file=outer.source_file or inner.source_file,
        source_line=outer.source_line or inner.source_line,
        stack_frame_id=outer.stack_frame_id or inner.stack_frame_id,
        scheduling_name=outer.scheduling_name,
        backend_config=outer.backend_config,
        frontend_attributes=outer.frontend_attributes,
    )
