"""The schedule of a Program: pairs of async instructions, and what runs inside of what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from counterpoint.hlo.model.instruction import Computation, Instruction
from counterpoint.hlo.model.program import Program

__all__ = [
    "OFFLOADED",
    "async_pairs",
    "enclosing",
    "in_loop",
    "is_done",
    "is_part_of_async",
    "is_start",
    "start_of",
]


_GENERIC = ("async-start", "async-update", "async-done")


def async_pairs(program: Program) -> Mapping[str, str]:
    """Map names of starts to names of their dones.

    XLA writes them in three ways: named pairs (`all-gather-start`, `copy-done`), sends and
    receives, and the generic `async-start` that calls a computation.
    """
    key = "async_pairs"
    if key not in program.answers:
        program.answers[key] = dict(_pairs(program))
    pairs: Mapping[str, str] = program.answers[key]
    return pairs


def in_loop(program: Program, computation: str) -> bool:
    """Return whether the computation runs inside the body (or the condition) of a loop."""
    return any(caller.opcode == "while" for caller in enclosing(program, computation))


def enclosing(program: Program, computation: str) -> list[Instruction]:
    """Return the instruction that calls the computation, the one around that, and so on."""
    around: list[Instruction] = []
    seen: set[str] = set()
    while computation not in seen:
        seen.add(computation)
        callers = program.callers(computation)
        if not callers:
            break
        around.append(callers[0])
        computation = callers[0].computation
    return around


def start_of(program: Program, done: Instruction) -> Instruction | None:
    """Return the start that a done (or an intermediate update) waits for."""
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
    """Return whether it is a done; also true for updates of a generic async instruction."""
    return instruction.opcode.endswith(("-done", "-update")) and (
        instruction.opcode != "dynamic-update"
    )


def _pairs(program: Program) -> Iterator[tuple[str, str]]:
    for instruction in program.instructions:
        if instruction.opcode.endswith("-done"):
            start = start_of(program, instruction)
            if start:
                yield start.name, instruction.name


def without_async_wrappers(program: Program) -> Program:
    """Inline one-instruction computations into the generic async instructions that call them.

    HLO text does this itself (`reduce-scatter-start`), so proto and text give the same Program.
    """
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
        plain = all(parameter.opcode == "parameter" for parameter in parameters)
        if plain and root.name == called.root and root.operands == _names(parameters):
            yield called.name, root


def _names(parameters: list[Instruction]) -> tuple[str, ...]:
    ordered = sorted(parameters, key=lambda parameter: parameter.parameter_number or 0)
    return tuple(parameter.name for parameter in ordered)


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
        _folded(member, runs[member.name]) if member.name in runs else member
        for member in computation.instructions
    )
    return replace(computation, instructions=instructions)


def _folded(outer: Instruction, inner: Instruction) -> Instruction:
    stage = outer.opcode.removeprefix("async")
    if stage != "-start":
        groups = outer.groups if inner.groups is not None else None
        return replace(outer, opcode=inner.opcode + stage, calls=(), groups=groups)
    return replace(
        _as(outer, inner, stage, outer.operands),
        backend_config=outer.backend_config,
        frontend_attributes=outer.frontend_attributes,
    )


_ASYNC_PART = '"async_collective_fusion_config"'
_ASYNC_START = "AsyncCollectiveStart"
_ASYNC_DONE = "AsyncCollectiveDone"
OFFLOADED = '"collective_offload_config"'
"""In the configuration of a collective that a TPU's SparseCore runs."""


def is_part_of_async(instruction: Instruction) -> bool:
    """Return whether a collective inside a fusion stands for a part of one that runs beside it."""
    return _ASYNC_PART in instruction.backend_config


def with_async_collectives(program: Program) -> Program:
    """Return the Program with the starts and dones of a TPU's async collectives as such.

        async-collective-start = fusion(shard)      marked AsyncCollectiveStart inside
        fusion.463 = fusion(buffers, ...)           computes, while data moves beside it
        async-collective-done = fusion(buffers)     marked AsyncCollectiveDone inside

    Each of them contains the whole collective again, though the data moves once. The start and the
    done become `all-gather-start` and `all-gather-done`; the fusions between them only compute.

        all-gather.1.call-start = call-start()                on the SparseCore, without its data
        all-gather.1.call-update = call-update(start, shard)  has the data, so the transfer begins
        all-gather.1.call-done = call-done(update)

    The SparseCore runs the collective in the computation called. The start is where its data is:
    in the place of the update.
    """
    ends = {
        name: (target, inner)
        for name, computation in program.computations.items()
        if (target := _target(computation))
        and (inner := next(filter(is_part_of_async, computation.instructions), None))
    }
    offloaded = {
        name: inner
        for name, computation in program.computations.items()
        for inner in computation.instructions
        if OFFLOADED in inner.backend_config
    }
    if not ends and not offloaded:
        return program
    changed = {
        name: _named(_on_sparse_core(computation, offloaded), ends)
        for name, computation in program.computations.items()
    }
    return replace(program, computations=changed, answers={})


def _on_sparse_core(computation: Computation, offloaded: Mapping[str, Instruction]) -> Computation:
    """Return the computation with collectives of the SparseCore as starts and dones."""
    by_name: dict[str, Instruction] = {}
    starts: dict[str, Instruction] = {}  # by names of starts and of updates
    for it in computation.instructions:
        first = starts.get(it.operands[0]) if it.operands else None
        inner = offloaded.get(it.calls[0]) if it.calls else None
        if it.opcode == "call-start" and inner is not None:
            by_name[it.name] = starts[it.name] = _as(it, inner, "-start", it.operands)
        elif it.opcode == "call-update" and first is not None:
            del by_name[first.name]
            handed = replace(first, operands=it.operands[1:] or first.operands, shape=it.shape)
            by_name[first.name] = starts[it.name] = handed
        elif it.opcode == "call-done" and first is not None:
            opcode = first.opcode.removesuffix("-start") + "-done"
            by_name[it.name] = replace(it, opcode=opcode, operands=(first.name,))
        else:
            by_name[it.name] = it
    placed = (replace(it, index=index) for index, it in enumerate(by_name.values()))
    return replace(computation, instructions=tuple(placed)) if starts else computation


def _target(computation: Computation) -> str | None:
    targets = (instruction.custom_call_target for instruction in computation.instructions)
    return next((target for target in targets if target in (_ASYNC_START, _ASYNC_DONE)), None)


def _named(computation: Computation, ends: Mapping[str, tuple[str, Instruction]]) -> Computation:
    running: dict[int | None, list[str]] = {}  # starts without a done, by channel
    renamed: list[Instruction] = []
    for it in computation.instructions:
        end = ends.get(it.calls[0]) if it.opcode == "fusion" and it.calls else None
        if end is None:
            renamed.append(it)
            continue
        target, inner = end
        waiting = running.setdefault(inner.channel_id, [])
        if target == _ASYNC_START:
            waiting.append(it.name)
            renamed.append(_as(it, inner, "-start", it.operands))
        elif waiting:
            renamed.append(_as(it, inner, "-done", (waiting.pop(0), *it.operands)))
        else:
            renamed.append(it)
    return replace(computation, instructions=tuple(renamed))


def _as(
    outer: Instruction, inner: Instruction, suffix: str, operands: tuple[str, ...]
) -> Instruction:
    return replace(
        inner,
        name=outer.name,
        opcode=inner.opcode + suffix,
        shape=outer.shape,
        operands=operands,
        computation=outer.computation,
        index=outer.index,
        op_name=outer.op_name or inner.op_name,
        source_file=outer.source_file or inner.source_file,
        source_line=outer.source_line or inner.source_line,
        stack_frame_id=outer.stack_frame_id or inner.stack_frame_id,
        scheduling_name=outer.scheduling_name,
    )
