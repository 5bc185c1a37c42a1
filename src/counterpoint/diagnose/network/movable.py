"""What could be moved in between a collective's start and its done to hide it.

Work of the same computation that stands outside of the two, needs nothing that the collective
brings (is no descendant of the done) and that the collective does not need either (is no ancestor
of the start). A loop or a call moves as one.

An upper bound: it does not ask for the memory that a move takes, nor whether another collective
wants the same work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.metrics.collectives import collective_profile
from counterpoint.diagnose.network.between import callees, done_of
from counterpoint.hlo import Instruction, Program
from counterpoint.timeline.model import Lane

SCHEMA: Final = {
    "program": pl.UInt16,
    "op": pl.String,  # the collective, by its start
    "movable_ms": pl.Float64,  # of one execution; null: no schedule is known
    "top": pl.List(pl.String),  # names of the longest, the longest first
}

_TOP: Final = 5

_Row = tuple[int | None, str, float | None, list[str]]


def movable_work(case: Case) -> pl.DataFrame:
    """Per collective, independent work that stands outside its start and done: SCHEMA."""
    asked = case.ask(collective_profile).select("program", "op", "count")
    works = {
        index: _Work(program, _measured(case, index))
        for index in asked["program"].drop_nulls().unique().to_list()
        if (program := case.timeline.programs[int(index)].hlo()) and program.is_scheduled
    }
    rows = [_row(works.get(program), program, op, count) for program, op, count in asked.rows()]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _row(work: _Work | None, program: int | None, op: str, count: float) -> _Row:
    found = work.outside(op) if work is not None else None
    if found is None or not count:
        return program, op, None, []
    longest = sorted(found, key=lambda name: -found[name])[:_TOP]
    return program, op, sum(found.values()) / count, longest


def _measured(case: Case, program: int) -> dict[str, float]:
    """Milliseconds in a median step of each op that computes or copies, by instruction."""
    works = pl.col("lane").is_in([Lane.COMPUTE, Lane.COPY]) & pl.col("pair").is_null()
    kinds = case.timeline.ops.filter(works).select("program", op=pl.coalesce("op", "name"))
    rows = case.ops.filter(pl.col("program") == program).join(
        kinds, on=["program", "op"], how="semi"
    )
    return {op: ms for op, ms in rows.select("op", "self_ms").iter_rows() if ms > 0}


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """A program with what its instructions were measured to take."""

    program: Program
    measured: Mapping[str, float]

    def outside(self, op: str) -> dict[str, float] | None:
        """Independent work before the start and behind the done; None for an unknown op."""
        start = self.program.instruction(op)
        if start is None:
            return None
        done = done_of(self.program, start) or start
        bound = _reached(start, self.program.operands) | _reached(done, self.program.users)
        instructions = self.program.computations[start.computation].instructions
        outer = (*instructions[: start.index], *instructions[done.index + 1 :])
        free = ((it.name, self._ms(it)) for it in outer if it.name not in bound)
        return {name: ms for name, ms in free if ms > 0}

    def _ms(self, it: Instruction) -> float:
        inner = (
            self.measured.get(one.name, 0.0)
            for name in dict.fromkeys(callees(self.program, it))
            for one in self.program.computations[name].instructions
        )
        return self.measured.get(it.name, 0.0) + sum(inner)


def _reached(
    first: Instruction, beyond: Callable[[Instruction], Iterable[Instruction]]
) -> set[str]:
    """Names of all instructions that one leads to, step by step, with its own."""
    seen, front = {first.name}, [first]
    while front:
        for it in beyond(front.pop()):
            if it.name not in seen:
                seen.add(it.name)
                front.append(it)
    return seen
