"""Movable work: ops that a collective does not need, nor they it, so that they could overlap it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.collectives.overlapped_work import callees, done_of
from counterpoint.diagnose.step_data import StepData
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.timeline.model import Lane

MOVABLE_SCHEMA: Final = {
    "program": pl.UInt16,
    "op": pl.String,  # the collective, by its start
    "movable_ms": pl.Float64,  # of one execution; null: no schedule is known
    "top": pl.List(pl.String),  # names of the longest ops, longest first
}

_TOP: Final = 5

_Row = tuple[int | None, str, float | None, list[str]]
IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
ByteArray: TypeAlias = NDArray[np.uint8]


def movable_work(data: StepData) -> pl.DataFrame:
    """Return, per collective, independent work outside its start and done: MOVABLE_SCHEMA.

    Independent work is in the same computation, does not need the collective's result (is no
    descendant of the done), and is not needed by the collective (is no ancestor of the start). A
    loop or a call moves as a unit. This is an upper bound: it ignores the memory that a move takes,
    and other collectives that could use the same work.
    """
    collectives = data.cached(collective_profile).select("program", "op", "count")
    by_program: dict[int, list[str]] = {}
    for index, op in collectives.drop_nulls("program").select("program", "op").rows():
        by_program.setdefault(index, []).append(op)
    works = {
        index: _MovableWork(program, _measured(data, index), _Dependence(program, ops))
        for index, ops in by_program.items()
        if (program := data.timeline.programs[index].hlo()) and program.is_scheduled
    }
    rows = [
        _work_row(works.get(program), program, op, count)
        for program, op, count in collectives.rows()
    ]
    return pl.DataFrame(rows, schema=MOVABLE_SCHEMA, orient="row")


def _work_row(work: _MovableWork | None, program: int | None, op: str, count: float) -> _Row:
    outside = work.outside(op) if work is not None else None
    if outside is None or not count:
        return program, op, None, []
    total_ms, longest = outside
    return program, op, total_ms / count, longest


def _measured(data: StepData, program: int) -> dict[str, float]:
    """Return milliseconds in a median step of each op that computes or copies, by instruction."""
    works = pl.col("lane").is_in([Lane.COMPUTE, Lane.COPY]) & pl.col("pair").is_null()
    kinds = data.timeline.ops.filter(works).select("program", op=pl.coalesce("op", "name"))
    rows = data.ops.filter(pl.col("program") == program).join(
        kinds, on=["program", "op"], how="semi"
    )
    return {op: ms for op, ms in rows.select("op", "self_ms").iter_rows() if ms > 0}


@dataclass(frozen=True, slots=True, eq=False)
class _TimedOps:
    """A computation's instructions that take time, in order."""

    names: list[str]
    indices: IntArray
    ms: FloatArray
    by_length: IntArray  # places in the other columns, longest first
    bits: ByteArray  # per instruction, those of `dependence`

    def outside(self, start: int, done: int, bit: int) -> tuple[float, list[str]]:
        """Return the milliseconds and the longest of the instructions without the bit."""
        free = (self.bits[:, bit >> 3] >> (bit & 7) & 1) == 0
        free &= (self.indices < start) | (self.indices > done)
        longest = self.by_length[free[self.by_length]][:_TOP]
        # In order, as Python adds.
        return sum(self.ms[free].tolist()), [self.names[place] for place in longest.tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class _MovableWork:
    """A program with the measured times of its instructions."""

    program: Program
    measured: Mapping[str, float]
    dependence: _Dependence
    timed: dict[str, _TimedOps] = field(default_factory=dict[str, _TimedOps])

    def outside(self, op: str) -> tuple[float, list[str]] | None:
        """Return independent work before the start and behind the done; None for an unknown op."""
        start = self.program.instruction(op)
        if start is None:
            return None
        done = done_of(self.program, start) or start
        timed = self.timed.get(start.computation)
        if timed is None:
            timed = self.timed[start.computation] = self._timed(start.computation)
        return timed.outside(start.index, done.index, self.dependence.bit(start))

    def _timed(self, computation: str) -> _TimedOps:
        members = self.program.computations[computation].instructions
        timed = [(member, ms) for member in members if (ms := self._ms(member)) > 0]
        bits = self.dependence.within(computation)
        width = self.dependence.width
        packed = b"".join(bits[member.name].to_bytes(width, "little") for member, _ in timed)
        ms = np.array([ms for _, ms in timed], np.float64)
        return _TimedOps(
            names=[member.name for member, _ in timed],
            indices=np.array([member.index for member, _ in timed], np.int64),
            ms=ms,
            by_length=np.argsort(-ms, kind="stable"),
            bits=np.frombuffer(packed, np.uint8).reshape(len(timed), width),
        )

    def _ms(self, instruction: Instruction) -> float:
        inner = (
            self.measured.get(inner_instruction.name, 0.0)
            for name in dict.fromkeys(callees(self.program, instruction))
            for inner_instruction in self.program.computations[name].instructions
        )
        return self.measured.get(instruction.name, 0.0) + sum(inner)


class _Dependence:
    """The instructions that collectives need, or that need them: one bit per collective."""

    def __init__(self, program: Program, collectives: Sequence[str]) -> None:
        self._program = program
        self._starts = [start for name in collectives if (start := program.instruction(name))]
        self._bits = {start.name: at for at, start in enumerate(self._starts)}
        self.width = len(self._starts) // 8 + 1  # in bytes

    def bit(self, collective: Instruction) -> int:
        """Return the number of its bit."""
        return self._bits[collective.name]

    def within(self, computation: str) -> dict[str, int]:
        """Return the bits of each instruction of a computation."""
        starts: dict[str, int] = {}
        dones: dict[str, int] = {}
        for start in self._starts:
            if start.computation == computation:
                done = done_of(self._program, start) or start
                starts[start.name] = 1 << self._bits[start.name]
                dones[done.name] = dones.get(done.name, 0) | 1 << self._bits[start.name]
        return dependence(self._program.computations[computation].instructions, starts, dones)


def dependence(
    instructions: Sequence[Instruction], starts: Mapping[str, int], dones: Mapping[str, int]
) -> dict[str, int]:
    """Return, per instruction, the bits of the starts that need it and of the dones it needs.

    One pass in each direction over a computation, however many starts and dones there are.
    """
    needs: dict[str, int] = {}
    for instruction in instructions:  # operands precede their users
        bits = dones.get(instruction.name, 0)
        for operand in instruction.operands:
            bits |= needs[operand]
        needs[instruction.name] = bits
    needed = {name: starts.get(name, 0) for name in needs}
    for instruction in reversed(instructions):
        if bits := needed[instruction.name]:
            for operand in instruction.operands:
                needed[operand] |= bits
    return {name: bits | needed[name] for name, bits in needs.items()}
