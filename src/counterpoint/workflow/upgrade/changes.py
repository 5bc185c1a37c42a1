"""The differences between two compiles of one step, by kind, and what each is worth.

Ops of the two are matched by what they compute, where, and how often (`diagnose.compare`), never by
their names. Each match is of one kind, so the kinds and the idle time add up to the difference of
the step.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from counterpoint.diagnose.compare.compared_op import STEP, ComparedOp
from counterpoint.diagnose.compare.comparison import StepDifference
from counterpoint.diagnose.compare.matching import MatchStage
from counterpoint.diagnose.compare.op_changes import OpChange
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program
from counterpoint.workflow.forecast.ranking import Forecast

GEMM: Final = "matmul"
_COPY: Final = "copy"
TINY_MS: Final = 1e-6
"""A smaller difference of times is of rounding."""
_BY_XLA: Final = "__triton"
_SAME: Final = (MatchStage.SAME, MatchStage.NAME, MatchStage.WORK, MatchStage.RENAMED)


class ChangeKind(StrEnum):
    """The kind of a difference, as a row of the report names it."""

    BACK_END = "GEMMs by another library"
    GEMMS = "GEMMs new, gone, merged, split or reshaped"
    FUSIONS = "fusions new, gone, merged, split or reshaped"
    CUSTOM = "other kernels new, gone or reshaped"
    LAYOUTS = "other layouts"
    COPIES = "copies and transposes"
    COMBINED = "collectives combined"
    SPLIT = "collectives split"
    SYNCHRONOUS = "collectives made synchronous"
    ASYNCHRONOUS = "collectives made asynchronous"
    COLLECTIVES = "collectives new, gone or of other sizes"
    EXPOSED = "collectives hidden less"
    HIDDEN = "collectives hidden more"
    TIMES = "the same op at another time of the step"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChangeOfKind:
    """All differences of one kind: ops of both sides in one step, and their time in it."""

    kind: ChangeKind
    a_ops: int
    b_ops: int
    a_ms: float
    b_ms: float
    rows: tuple[OpChange, ...]  # the largest difference first

    @property
    def difference_ms(self) -> float:
        return self.b_ms - self.a_ms


Programs = Mapping[str, Program]
"""The programs of a step by the labels of their ops."""


def programs_of(forecast: Forecast) -> Programs:
    """Return the programs of a step by the labels that a comparison gives them."""
    others = (part.program for part in forecast.parts if part.program is not forecast.program)
    return {**{program.name: program for program in others}, STEP: forecast.program}


def changes_of(work: StepDifference, a: Programs, b: Programs) -> tuple[StepChangeOfKind, ...]:
    """Return the differences between the programs of two steps, the costliest kind first."""
    by_kind: defaultdict[ChangeKind, list[OpChange]] = defaultdict(list)
    for row in work.ops:
        kind = kind_of(row, a, b)
        if kind is not None:
            by_kind[kind].append(row)
    changes = [_of_kind(kind, rows) for kind, rows in by_kind.items()]
    return tuple(sorted(changes, key=lambda it: (-abs(it.difference_ms), it.kind)))


def _of_kind(kind: ChangeKind, rows: Sequence[OpChange]) -> StepChangeOfKind:
    return StepChangeOfKind(
        kind=kind,
        a_ops=sum(len(row.match.a) for row in rows),
        b_ops=sum(len(row.match.b) for row in rows),
        a_ms=math.fsum(row.a_ms for row in rows),
        b_ms=math.fsum(row.b_ms for row in rows),
        rows=tuple(sorted(rows, key=lambda row: -abs(row.difference_ms))),
    )


def kind_of(row: OpChange, a: Programs, b: Programs) -> ChangeKind | None:
    """Return the kind of a difference; None if both sides do the same in the same time."""
    if row.shown.is_collective:
        return _of_collective(row)
    before, after = _instructions(a, row.match.a), _instructions(b, row.match.b)
    one_to_one = len(row.match.a) == len(row.match.b) == 1
    if one_to_one and row.how in _SAME:
        if row.shown.category == GEMM and _libraries(before) != _libraries(after):
            return ChangeKind.BACK_END
        if _layouts(before) != _layouts(after):
            return ChangeKind.LAYOUTS
        return ChangeKind.TIMES if abs(row.difference_ms) > TINY_MS else None
    if abs(row.difference_ms) <= TINY_MS and _forms(before) == _forms(after):
        return None  # other code of the user at the same place, or a kernel of other content
    return _of_group(row, before, after)


def _of_group(
    row: OpChange, before: Sequence[Instruction], after: Sequence[Instruction]
) -> ChangeKind:
    """Return the kind of ops that came, went, or took the place of others."""
    if any(it.category == GEMM for it in (*row.match.a, *row.match.b)):
        return ChangeKind.GEMMS
    if row.shown.category == _COPY:
        return ChangeKind.COPIES
    custom = any(it.opcode == "custom-call" for it in (*before, *after))
    return ChangeKind.CUSTOM if custom else ChangeKind.FUSIONS


def _of_collective(row: OpChange) -> ChangeKind | None:
    mine, theirs = row.match.a, row.match.b
    if not mine or not theirs:
        return ChangeKind.COLLECTIVES
    if len(mine) != len(theirs):
        return ChangeKind.COMBINED if len(mine) > len(theirs) else ChangeKind.SPLIT
    if any(it.sync for it in mine) != any(it.sync for it in theirs):
        sync = any(it.sync for it in theirs)
        return ChangeKind.SYNCHRONOUS if sync else ChangeKind.ASYNCHRONOUS
    if [(it.bytes, it.count) for it in mine] != [(it.bytes, it.count) for it in theirs]:
        return ChangeKind.COLLECTIVES
    if abs(row.difference_ms) <= TINY_MS:
        return None
    return ChangeKind.EXPOSED if row.difference_ms > 0 else ChangeKind.HIDDEN


def _instructions(programs: Programs, items: Iterable[ComparedOp]) -> list[Instruction]:
    named = ((programs.get(item.program), item.op) for item in items)
    instructions = (program.instruction(op) for program, op in named if program is not None)
    return [instruction for instruction in instructions if instruction is not None]


def _libraries(instructions: Sequence[Instruction]) -> list[str]:
    """Return what computes each GEMM: the target of its custom call, or XLA's own code."""
    return [
        it.custom_call_target
        if it.opcode == "custom-call"
        else (_BY_XLA if _BY_XLA in it.backend_config else it.opcode)
        for it in instructions
    ]


def _forms(instructions: Sequence[Instruction]) -> list[tuple[str, str, str]]:
    """Return what an op is, but for the code that it comes from."""
    return [(it.opcode, it.custom_call_target, str(it.shape)) for it in instructions]


def _layouts(instructions: Sequence[Instruction]) -> list[list[tuple[int, ...]]]:
    """Return the order in memory of each result; a workspace, which has one dimension, is none."""
    return [[_order(leaf) for leaf in it.shape.leaves if len(leaf.dims) > 1] for it in instructions]


def _order(shape: Shape) -> tuple[int, ...]:
    """Return the order of the dimensions that have more than one element: others have none."""
    usual = tuple(reversed(range(len(shape.dims))))
    return tuple(at for at in shape.minor_to_major or usual if shape.dims[at] > 1)
