"""What each op is: its category, lane, collective, place in the user's code and in the schedule.

Asked of the embedded Program where there is one; else of the HLO text that TPU profiles carry for
each op; else told by the op's name (`naming`), which knows no bytes, groups or phases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import polars as pl

from counterpoint.hlo import (
    Instruction,
    Program,
    Transfer,
    async_pairs,
    between_slices,
    bytes_accessed,
    category,
    collective,
    flops,
    provenance,
    start_of,
    transfer_of,
)
from counterpoint.hlo.fragments import Fragment, program_from_fragments
from counterpoint.hlo.phase import phase_of_name
from counterpoint.hlo.scope import scope
from counterpoint.timeline import naming
from counterpoint.timeline.model import OPS
from counterpoint.timeline.recording import SAID

Row = dict[str, Any]
HloOf = Callable[[int], Program | None]

_NO_PROGRAM: Final = -1


def describe_ops(ops: pl.DataFrame, programs: Sequence[int], hlo_of: HloOf) -> pl.DataFrame:
    """The Timeline's rows for a recording's ops; `programs` has the program of each, or -1."""
    texts = _programs_from_texts(ops, programs)
    rows = [
        _describe(row, index, _look_up(row["op"], index, hlo_of, texts))
        for row, index in zip(ops.iter_rows(named=True), programs, strict=True)
    ]
    return pl.DataFrame(rows, schema=OPS, orient="row")


def _look_up(
    op: str | None, index: int, hlo_of: HloOf, texts: Mapping[int, Program]
) -> tuple[Program, Instruction] | None:
    if op is None:
        return None
    for program in (None if index == _NO_PROGRAM else hlo_of(index), texts.get(index)):
        instruction = program.instruction(op) if program is not None else None
        if program is not None and instruction is not None:
            return program, instruction
    return None


def _programs_from_texts(ops: pl.DataFrame, programs: Sequence[int]) -> dict[int, Program]:
    """Make a Program, without bodies, of the instructions that a profile spells out itself."""
    fragments: dict[int, list[Fragment]] = {}
    for text, op_name, index in zip(ops["text"], ops["scope"], programs, strict=True):
        if text is not None:
            fragment = Fragment(text, op_name.rstrip(":") if op_name else None)
            fragments.setdefault(index, []).append(fragment)
    return {index: program_from_fragments("fragments", texts) for index, texts in fragments.items()}


def _describe(row: Row, index: int, found: tuple[Program, Instruction] | None) -> Row:
    described = _by_name(row) if found is None else _by_program(row, *found)
    said = {name.removeprefix("said_"): row[name] for name in SAID if row.get(name) is not None}
    return {
        **dict.fromkeys(OPS),
        "name": row["name"],
        "op": row["op"],
        "program": None if index == _NO_PROGRAM else index,
        "async_window": bool(row["async_window"]),
        **described,
        **said,
    }


def _by_name(row: Row) -> Row:
    name = row["op"] or row["name"]
    kind = naming.category(name, row["name"], row["hint"])
    return {
        "opcode": naming.opcode(name),
        "category": kind,
        "lane": naming.lane(kind, name),
        "collective": naming.collective_kind(name) or naming.collective_kind(row["name"]),
        "scope": _scope(row["scope"]),
        "phase": phase_of_name(row["scope"]) if row["scope"] else None,
        "source": row["source"],
        "flops": row["flops"],
        "bytes_accessed": row["bytes"],
    }


def _by_program(row: Row, program: Program, instruction: Instruction) -> Row:
    kind = category(program, instruction)
    if kind == "other" and row["hint"]:
        kind = naming.category(row["op"], row["name"], row["hint"])
    origin = provenance(program, instruction)
    if kind == "convolution" and origin.primitive == "dot_general":
        kind = "matmul"  # a TPU computes every matrix product as a convolution
    known_flops = flops(program, instruction)
    accessed = bytes_accessed(program, instruction)
    return {
        "opcode": instruction.opcode,
        "category": kind,
        "lane": naming.lane(kind, instruction.opcode),
        "scope": origin.scope or _scope(row["scope"]),
        "source": origin.source or row["source"],
        "phase": origin.phase,
        "flops": row["flops"] if row["flops"] is not None else known_flops,
        "bytes_accessed": row["bytes"] if row["bytes"] is not None else accessed,
        **_collective(program, instruction, row.get("said_group_size")),
        **_schedule(program, instruction),
    }


def _scope(op_name: str | None) -> str | None:
    """What the user named, of a path as the profiler writes it; TPU ends it with a colon."""
    return scope(op_name.rstrip(":")).path or None if op_name else None


def _collective(program: Program, instruction: Instruction, said_size: int | None) -> Row:
    of = collective(program, instruction)
    if of is None:
        return {}
    transfer = transfer_of(program, instruction)
    if transfer is not None and transfer.slices is None and said_size:
        of = between_slices(replace(transfer, slices=said_size))
    return {
        "collective": of.kind,
        "bytes": of.bytes,
        "group_size": of.group_size,
        "bus_factor": of.bus_factor,
    }


def _schedule(program: Program, instruction: Instruction) -> Row:
    transfer = transfer_of(program, instruction)
    if transfer is not None:
        return _schedule_of_transfer(program, instruction, transfer)
    done = async_pairs(program).get(instruction.name)
    waits = program.instruction(done) if done else None
    started = start_of(program, instruction)
    pair = instruction.name if done else (started.name if started else None)
    if not program.is_scheduled:
        return {"pair": pair}
    return {
        "pair": pair,
        "computation": instruction.computation,
        "position": instruction.index,
        "done_position": waits.index if waits else None,
    }


def _schedule_of_transfer(program: Program, instruction: Instruction, transfer: Transfer) -> Row:
    """A transfer between slices lasts from its send to its recv-done: all four are one pair."""
    row: Row = {"pair": transfer.name}
    if not program.is_scheduled:
        return row
    ends = program.instruction(transfer.recv_done or transfer.send_done or "")
    begins = instruction.name == transfer.name
    here = ends is not None and ends.computation == instruction.computation
    return {
        **row,
        "computation": instruction.computation,
        "position": instruction.index,
        "done_position": ends.index if ends is not None and begins and here else None,
    }
