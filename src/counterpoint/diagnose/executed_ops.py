"""The instructions behind rows of the op profile, and which of them recompute or reorder data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.diagnose.finding import Evidence
from counterpoint.diagnose.savings import savings_of
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program, launches
from counterpoint.hlo.views import VIEWS

_VIEW_WORDS: Final = "parameter constant bitcast reshape tuple get-tuple-element copy transpose"

_VIEWS: Final = frozenset(_VIEW_WORDS.split())


def moves_only(program: Program, instruction: Instruction) -> bool:
    """Return whether the instruction only writes its operand in another order.

    A copy into the same order is not counted: it has another reason (a buffer that must not change,
    a loop's state, another memory). Neither is a fusion that also converts or computes: it would
    run anyway.
    """
    inside = program.body(instruction) if instruction.opcode == "fusion" else (instruction,)
    if not inside or any(body_instruction.opcode not in _VIEWS for body_instruction in inside):
        return False
    return any(_reorders(program, body_instruction) for body_instruction in inside)


def _reorders(program: Program, instruction: Instruction) -> bool:
    sources = program.operands(instruction)
    if instruction.opcode not in ("copy", "transpose") or not sources:
        return False
    source, result = sources[0].shape, instruction.shape
    if instruction.opcode == "copy":
        return _order(source) != _order(result)
    # Dimension d of the result is dimensions[d] of the operand; compare both orders in the
    # operand's dimensions.
    as_source = [
        instruction.dimensions[dim] for dim in _order(result) if dim < len(instruction.dimensions)
    ]
    return as_source != _order(source)


def _order(shape: Shape) -> list[int]:
    """Return dimensions longer than one, fastest first; without a layout, the default order."""
    order = shape.minor_to_major or tuple(reversed(range(len(shape.dims))))
    return [dim for dim in order if dim < len(shape.dims) and shape.dims[dim] > 1]


_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class ExecutedOp:
    """An instruction that ran, and its row of `StepData.ops`."""

    row: dict[str, Any]
    program: Program
    instruction: Instruction

    @property
    def ms(self) -> float:
        """Its self time in a median step."""
        return float(self.row["self_ms"])

    @property
    def once_ms(self) -> float:
        """Time of one execution; an op that runs only in some steps counts as one per step."""
        return self.ms / max(float(self.row["count"]), 1.0)


def executed_ops(data: StepData, of: pl.Expr) -> Iterator[ExecutedOp]:
    """Yield the rows of the op profile that match `of`, longest first."""
    return executed_rows(data, data.ops.filter(of))


def executed_rows(data: StepData, rows: pl.DataFrame) -> Iterator[ExecutedOp]:
    """Yield the rows of the op profile whose instruction is known, in their order."""
    for row in rows.filter(pl.col("program").is_not_null()).iter_rows(named=True):
        index: int = row["program"]
        program = data.timeline.programs[index].hlo()
        instruction = program.instruction(row["op"]) if program is not None else None
        if program is not None and instruction is not None:
            yield ExecutedOp(row, program, instruction)


def without_hlo(data: StepData) -> pl.DataFrame:
    """Return the rows of the op profile of which only the profiler's records are known."""
    ran: list[int] = data.ops["program"].drop_nulls().unique().to_list()
    known = [number for number in ran if data.timeline.programs[number].hlo() is not None]
    return data.ops.filter(~pl.col("program").is_in(known).fill_null(value=False))


def evidence_of(data: StepData, ops: Iterable[ExecutedOp]) -> tuple[Evidence, ...]:
    """Return the first few as evidence with their source lines."""
    return rows_as_evidence(data, (entry.row for entry in ops))


def rows_as_evidence(data: StepData, rows: Iterable[dict[str, Any]]) -> tuple[Evidence, ...]:
    """Return the first few rows of `StepData.ops` as evidence with their source lines."""
    return tuple(
        replace(data.evidence(row, "self_ms"), what=place_of(row)) for row in islice(rows, _SHOWN)
    )


def readers(program: Program, instruction: Instruction) -> Iterator[tuple[Instruction, int]]:
    """Yield the work that reads a value, with the bytes of the value or of the part it is given.

    Follows tuples and views, which cost nothing, but not loops.
    """
    front, seen = [instruction], {instruction.name}
    while front:
        value = front.pop()
        for user in program.users(value):
            if user.opcode in VIEWS and user.name not in seen:
                seen.add(user.name)
                front.append(user)
            elif launches(user) and not value.shape.is_tuple:
                yield user, value.shape.bytes


def gain_without(data: StepData, ops: Iterable[ExecutedOp], most: float) -> tuple[Range, Basis]:
    """Return the gain without these instructions: simulated if possible, else at most `most`.

    The simulator knows the step's program; of other programs nothing is certain.
    """
    step = data.timeline.step_program
    own: list[str] = []
    elsewhere_ms = 0.0
    for entry in ops:
        if entry.row["program"] == step:
            own.append(entry.instruction.name)
        else:
            elsewhere_ms += entry.ms
    gain = data.cached(savings_of).without(own) if own else None
    if gain is None:
        return Range(0.0, most), data.basis
    return Range(min(gain.low, most), min(gain.high + elsewhere_ms, most)), Basis.PREDICTED
