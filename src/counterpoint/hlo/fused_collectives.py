"""Async collective fusions of TPUs: a collective that runs while other fusions compute.

    async-collective-start = fusion(shard), kind=kCustom    marked AsyncCollectiveStart inside
    fusion.463 = fusion(buffers, ...), kind=kOutput         computes, while data moves beside it
    async-collective-done = fusion(buffers), kind=kCustom   marked AsyncCollectiveDone inside

Each of them contains the whole collective again, though the data moves once. The start and the done
are read as what they are, `all-gather-start` and `all-gather-done`; the fusions between them only
compute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from counterpoint.hlo.model.instruction import Computation, Instruction
from counterpoint.hlo.model.program import Program

_MARK: Final = '"async_collective_fusion_config"'
_START: Final = "AsyncCollectiveStart"
_DONE: Final = "AsyncCollectiveDone"


def is_part_of_async(instruction: Instruction) -> bool:
    """Return whether a collective inside a fusion stands for a part of one that runs beside it."""
    return _MARK in instruction.backend_config


def with_async_collectives(program: Program) -> Program:
    """Return the Program with the starts and dones of async collective fusions as such."""
    ends = {
        name: (target, inner)
        for name, computation in program.computations.items()
        if (target := _target(computation)) and (inner := _inner(computation))
    }
    if not ends:
        return program
    changed = {
        name: _named(computation, ends) for name, computation in program.computations.items()
    }
    return replace(program, computations=changed, answers={})


def _target(computation: Computation) -> str | None:
    targets = (instruction.custom_call_target for instruction in computation.instructions)
    return next((target for target in targets if target in (_START, _DONE)), None)


def _inner(computation: Computation) -> Instruction | None:
    return next((it for it in computation.instructions if is_part_of_async(it)), None)


def _named(computation: Computation, ends: Mapping[str, tuple[str, Instruction]]) -> Computation:
    running: dict[int | None, list[str]] = {}  # starts without a done, by channel
    found: list[Instruction] = []
    for it in computation.instructions:
        end = ends.get(it.calls[0]) if it.opcode == "fusion" and it.calls else None
        if end is None:
            found.append(it)
            continue
        target, inner = end
        waiting = running.setdefault(inner.channel_id, [])
        if target == _START:
            waiting.append(it.name)
            found.append(_as(it, inner, "-start", it.operands))
        elif waiting:
            found.append(_as(it, inner, "-done", (waiting.pop(0), *it.operands)))
        else:
            found.append(it)
    return replace(computation, instructions=tuple(found))


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
