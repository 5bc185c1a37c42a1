"""Describes each op: category, lane, collective, place in the user's code and in the schedule.

The data comes from the embedded Program if there is one; else from the HLO text that TPU profiles
carry for each op; else from the op's name (`category_by_name`), which gives no bytes, groups or
phases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import polars as pl

from counterpoint.hlo.category import WRITTEN_BY_HAND, category
from counterpoint.hlo.collectives import KINDS, between_slices, collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.phase import phase_of_name
from counterpoint.hlo.provenance import provenance, scope
from counterpoint.hlo.reader import Fragment, program_from_fragments
from counterpoint.hlo.schedule import async_pairs, start_of
from counterpoint.hlo.transfers import Transfer, transfer_of
from counterpoint.hlo.work import bytes_accessed, flops
from counterpoint.timeline.kernel_names import function_of
from counterpoint.timeline.model import OPS, Lane
from counterpoint.timeline.recording import TIMELINE_COLUMNS

__all__ = ["describe_ops", "lane", "without_false_forward"]


_NUMBERING: Final = re.compile(r"(\.(\d+|clone|remat\d*|sunk)){1,16}$")

_CONTROL_OPCODES: Final = ("while", "conditional", "call")

_NCCL_KINDS: Final = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "collective-broadcast",
    "sendrecv": "send/recv",  # of a pipeline, a permutation or an all-to-all
    "reduce": "all-reduce",
}
_LIBRARIES: Final = ("nccl", "rccl", "msccl")

_ACROSS_DEVICES: Final = {
    "multimemallreduce": "all-reduce",
    "oneshotallreduce": "all-reduce",
    "twoshotallreduce": "all-reduce",
    "allreducefusion": "all-reduce",
    "crossdevicereduce": "all-reduce",
    "multimemallgather": "all-gather",
    "multimemreducescatter": "reduce-scatter",
}
"""Collectives that inference servers and PyTorch's symmetric memory run without a library."""

_KERNELS: Final = (
    (
        re.compile(
            r"^\W*(?:(?:gpu|cuda|hip)[ _]?)?mem(?:cpy|set)|rocclr_\w*buffer|^(?:copy|fill)buffer",
            re.IGNORECASE,
        ),
        "copy",
    ),
    (re.compile(r"fmha|flash|attention|sdpa", re.IGNORECASE), "attention"),
    (
        re.compile(
            r"conv(?!er[ts])|im[23]d?2?col|winograd|implicit_gemm|igemm_(?:fwd|bwd|wrw)"
            r"|tensorop_\w*(?:fprop|dgrad|wgrad)",
            re.IGNORECASE,
        ),
        "convolution",
    ),
    (
        re.compile(
            r"gemm|^bmm|cutlass|cublas|nvjet|^Cijk_|matmul|xmma|_dot_|^dot|wgmma", re.IGNORECASE
        ),
        "matmul",
    ),
    (re.compile(r"reduce|softmax|norm", re.IGNORECASE), "reduction"),
    (re.compile(r"sort|topk", re.IGNORECASE), "sort"),
    (re.compile(r"scatter|gather|dynamic-(update-)?slice", re.IGNORECASE), "scatter/gather"),
    (re.compile(r"transpose|^copy", re.IGNORECASE), "copy"),
    (
        re.compile(
            r"fusion|elementwise|broadcast|wrapped|loop|triton|add|mul|convert", re.IGNORECASE
        ),
        "fusion",
    ),
)

_LANES: Final = {
    "collective": Lane.COLLECTIVE,
    "copy": Lane.COPY,
    "host": Lane.COPY,
    "control": Lane.CONTROL,
}

Row = dict[str, Any]
HloOf = Callable[[int], Program | None]

_NO_PROGRAM: Final = -1


def lane(category: str, opcode: str) -> Lane:
    """Return the lane of a category.

    A fusion that transposes moves data, but it is a kernel. A call to the host blocks its stream as
    a kernel does, and is not a copy.
    """
    if category == "host" and opcode.startswith("custom-call"):
        return Lane.COMPUTE
    if category == "copy" and ("fusion" in opcode or "transpose" in opcode):
        return Lane.COMPUTE
    return _LANES.get(category, Lane.COMPUTE)


def opcode(name: str) -> str | None:
    """Return the HLO opcode that an instruction's name starts with, if it is a known one."""
    stem = _NUMBERING.sub("", name)
    for known in (*KINDS, *_CONTROL_OPCODES, "copy"):
        if stem == known or stem in (f"{known}-start", f"{known}-done"):
            return stem
    return None


def collective_kind(name: str) -> str | None:
    """Return the kind of collective of an HLO name or an NCCL kernel's name."""
    stem = opcode(name)
    if stem is not None:
        bare = stem.removesuffix("-start").removesuffix("-done")
        return bare if bare in KINDS else None
    text = function_of(name).lower().replace("_", "")
    if any(library in text for library in _LIBRARIES):
        return next((kind for word, kind in _NCCL_KINDS.items() if word in text), "unknown")
    return next((kind for word, kind in _ACROSS_DEVICES.items() if word in text), None)


def category_by_name(name: str, kernel: str, hint: str | None) -> str:
    """Return the category of an op by its HLO name, its kernel's name and the profiler's hint.

    Only for profiles without HLO. HLO instruction names start with their opcode, and kernel names
    of known libraries tell what they compute; other names are "other".
    """
    if collective_kind(name) or collective_kind(kernel):
        return "collective"
    if opcode(name) in _CONTROL_OPCODES:
        return "control"
    if opcode(name) is not None:
        return "copy"
    for text in (hint or "", function_of(name), function_of(kernel)):
        for pattern, kind in _KERNELS:
            if text and pattern.search(text):
                return kind
    return "other"


def describe_ops(
    ops: pl.DataFrame, programs: Sequence[int], hlo_of: HloOf, chosen: Sequence[int] | None = None
) -> pl.DataFrame:
    """Return the Timeline's rows for a recording's ops, or for the rows `chosen` of them.

    `programs` has each op's program, or -1.
    """
    texts = _programs_from_texts(ops, programs)  # an op's text may refer to any other op
    if chosen is not None:
        ops, programs = ops[chosen], [programs[row] for row in chosen]
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
    """Build a Program, without bodies, from the instructions that a profile spells out."""
    fragments: dict[int, list[Fragment]] = {}
    for text, op_name, index in zip(ops["text"], ops["scope"], programs, strict=True):
        if text is not None:
            fragment = Fragment(text, op_name.rstrip(":") if op_name else None)
            fragments.setdefault(index, []).append(fragment)
    return {index: program_from_fragments("fragments", texts) for index, texts in fragments.items()}


def _describe(row: Row, index: int, hlo: tuple[Program, Instruction] | None) -> Row:
    described = _by_name(row) if hlo is None else _by_program(row, *hlo)
    recorded = {
        name.removeprefix("said_"): row[name]
        for name in TIMELINE_COLUMNS
        if row.get(name) is not None
    }
    return {
        **dict.fromkeys(OPS),
        "name": row["name"],
        "op": row["op"],
        "program": None if index == _NO_PROGRAM else index,
        "async_window": bool(row["async_window"]),
        **described,
        **recorded,
    }


def _by_name(row: Row) -> Row:
    name = row["op"] or row["name"]
    kind = category_by_name(name, row["name"], row["hint"])
    return {
        "opcode": opcode(name),
        "category": kind,
        "lane": lane(kind, name),
        "collective": collective_kind(name) or collective_kind(row["name"]),
        "scope": _scope(row["scope"]),
        "phase": phase_of_name(row["scope"]) if row["scope"] else None,
        "source": row["source"],
        "flops": row["flops"],
        "bytes_accessed": row["bytes"],
    }


def _by_program(row: Row, program: Program, instruction: Instruction) -> Row:
    kind = category(program, instruction)
    if kind == "other" and row["hint"]:
        kind = category_by_name(row["op"], row["name"], row["hint"])
    origin = provenance(program, instruction)
    if kind == "convolution" and origin.primitive == "dot_general":
        kind = "matmul"  # a TPU computes every matrix product as a convolution
    known_flops = flops(program, instruction)
    # A kernel written by hand may touch a few pages of an operand, so operands tell nothing.
    own = instruction.custom_call_target in WRITTEN_BY_HAND
    accessed = None if own else bytes_accessed(program, instruction)
    return {
        "opcode": instruction.opcode,
        "category": kind,
        "lane": lane(kind, instruction.opcode),
        "scope": origin.scope or _scope(row["scope"]),
        "source": origin.source or row["source"],
        "phase": origin.phase,
        "flops": row["flops"] if row["flops"] is not None else known_flops,
        "bytes_accessed": row["bytes"] if row["bytes"] is not None else accessed,
        **_collective(program, instruction, row.get("said_group_size")),
        **_schedule(program, instruction),
    }


def _scope(op_name: str | None) -> str | None:
    """Return the user's part of a path as the profiler writes it; TPU profiles append a colon."""
    return scope(op_name.rstrip(":")).path or None if op_name else None


def _collective(program: Program, instruction: Instruction, said_size: int | None) -> Row:
    operation = collective(program, instruction)
    if operation is None:
        return {}
    transfer = transfer_of(program, instruction)
    if transfer is not None and transfer.slices is None and said_size:
        operation = between_slices(replace(transfer, slices=said_size))
    return {
        "collective": operation.kind,
        "bytes": operation.bytes,
        "group_size": operation.group_size,
        "bus_factor": operation.bus_factor,
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
    """Return the schedule of a transfer between slices, one pair from its send to its recv-done."""
    row: Row = {"pair": transfer.name}
    if not program.is_scheduled:
        return row
    ends = program.instruction(transfer.recv_done or transfer.send_done or "")
    begins = instruction.name == transfer.name
    same_computation = ends is not None and ends.computation == instruction.computation
    return {
        **row,
        "computation": instruction.computation,
        "position": instruction.index,
        "done_position": ends.index if ends is not None and begins and same_computation else None,
    }


def without_false_forward(ops: pl.DataFrame) -> pl.DataFrame:
    """Relabel forward ops of programs without a backward pass when another program has one.

    Alone, such a program would be inference; beside training it may be an update or an evaluation.
    """
    trains = ops.filter(pl.col("phase") == "backward")["program"].unique().to_list()
    if not trains:
        return ops
    elsewhere = ~pl.col("program").is_in(trains) & (pl.col("phase") == "forward")
    return ops.with_columns(phase=pl.when(elsewhere).then(pl.lit("other")).otherwise("phase"))
