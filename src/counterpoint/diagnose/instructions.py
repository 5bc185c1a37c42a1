"""The instructions behind rows of the op profile, where the profile carries their HLO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import polars as pl

from counterpoint.core.basis import Basis, Range
from counterpoint.diagnose.case import Case, place_of
from counterpoint.diagnose.finding import Evidence
from counterpoint.diagnose.savings import savings_of
from counterpoint.hlo import Instruction, Program, launches

_SHOWN: Final = 5
_DEEPEST: Final = 32
_THROUGH: Final = ("bitcast", "get-tuple-element", "tuple", "opt-barrier", "optimization-barrier")


@dataclass(frozen=True, slots=True, eq=False)
class Ran:
    """An instruction that ran, and its row of `Case.ops`."""

    row: dict[str, Any]
    program: Program
    instruction: Instruction

    @property
    def ms(self) -> float:
        """Its own time in a median step."""
        return float(self.row["self_ms"])

    @property
    def once_ms(self) -> float:
        """One execution; one that runs in some steps only counts as one of each."""
        return self.ms / max(float(self.row["count"]), 1.0)


def ran(case: Case, of: pl.Expr) -> Iterator[Ran]:
    """Rows of the op profile that the expression picks, the longest first."""
    return behind(case, case.ops.filter(of))


def behind(case: Case, rows: pl.DataFrame) -> Iterator[Ran]:
    """Those of some rows of the op profile whose instruction is known, in their order."""
    for row in rows.filter(pl.col("program").is_not_null()).iter_rows(named=True):
        index: int = row["program"]
        program = case.timeline.programs[index].hlo()
        instruction = program.instruction(row["op"]) if program is not None else None
        if program is not None and instruction is not None:
            yield Ran(row, program, instruction)


def evidence_of(case: Case, found: Iterable[Ran]) -> tuple[Evidence, ...]:
    """The first few with their lines."""
    return rows_as_evidence(case, (it.row for it in found))


def rows_as_evidence(case: Case, rows: Iterable[dict[str, Any]]) -> tuple[Evidence, ...]:
    """The first few rows of `Case.ops` with their lines."""
    return tuple(
        replace(case.evidence(row, "self_ms"), what=place_of(row)) for row in islice(rows, _SHOWN)
    )


def counted(number: int, noun: str) -> str:
    """`1 kernel`, `2 kernels`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def readers(program: Program, instruction: Instruction) -> Iterator[tuple[Instruction, int]]:
    """The work that reads its value, each with the bytes of the value or of the part it is given.

    Looked for through tuples and views, which cost nothing, but not into loops.
    """
    front, seen = [instruction], {instruction.name}
    while front:
        value = front.pop()
        for user in program.users(value):
            if user.opcode in _THROUGH and user.name not in seen:
                seen.add(user.name)
                front.append(user)
            elif launches(user) and not value.shape.is_tuple:
                yield user, value.shape.bytes


def writer_of(program: Program, instruction: Instruction) -> Instruction | None:
    """The work, or the parameter, whose value it reads first."""
    seen = instruction
    for _ in range(_DEEPEST):
        sources = program.operands(seen)
        if not sources:
            return None
        seen = sources[0]
        if seen.opcode not in _THROUGH:
            return seen
    return None


def gain_without(case: Case, found: Iterable[Ran], most: float) -> tuple[Range, Basis]:
    """What the step gains if these took no time: asked of the simulator, else bounded."""
    step = case.timeline.step_program
    names = [it.instruction.name for it in found if it.row["program"] == step]
    asked = case.ask(savings_of).without(names) if names else None
    if asked is None:
        return Range(0.0, most), case.basis
    return Range(min(asked.low, most), min(asked.high, most)), Basis.PREDICTED
