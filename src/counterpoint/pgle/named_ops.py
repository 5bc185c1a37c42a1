"""Maps profiled ops to the names under which XLA's scheduler looks up their costs.

It looks up the exact name of an instruction of the computations it schedules; for an asynchronous
one, that of its start. A profiler may name the instruction inside an async wrapper, or one inside a
fusion that got a kernel of its own: their time belongs to the start, and to the fusion.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from counterpoint.hlo.loops import times_per_run
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launched
from counterpoint.pgle.lookups import cost_name
from counterpoint.pgle.profiles.profile import SEPARATOR
from counterpoint.timeline.model import Timeline

_SCHEMA = {
    "instruction": pl.String,
    "member": pl.String,
    "body": pl.String,
    "times": pl.UInt32,
}
_NOTHING = (None, None, None, None)

_Found = tuple[str | None, str | None, str | None, int | None]


def named_ops(timeline: Timeline) -> pl.DataFrame:
    """Return the Timeline's ops with six more columns.

    `row` and `host`; `instruction`, the name XLA looks up, null if it looks up none; `member`, the
    instruction's name in the finished program, where clones have different names; `body`, the
    computation it is in; and `times`, how often it runs in one run of its program. The last two are
    null if unknown.
    """
    hosts = [device.host for device in timeline.devices]
    first = timeline.spans.group_by("op").agg(pl.col("device").min())
    ops = timeline.ops.with_row_index("row").join(first, left_on="row", right_on="op", how="left")
    host = pl.col("device").replace_strict(dict(enumerate(hosts)), default=None)
    ops = ops.with_columns(host=host.cast(pl.UInt16)).drop("device").sort("row")
    finder = _Finder(timeline)
    rows = [finder.find(op) for op in ops.iter_rows(named=True)]
    return ops.hstack(pl.DataFrame(rows, schema=_SCHEMA, orient="row"))


class _Finder:
    """Looks ops up one by one; the launched instructions of a Program are cached."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._launched: dict[int, frozenset[str]] = {}

    def find(self, op: dict[str, Any]) -> _Found:
        name: str | None = op["pair"] or op["op"]
        number: int | None = op["program"]
        if name is None or number is None or op["host"] is None:
            return _NOTHING
        program = self._timeline.programs[number].hlo(op["host"])
        if program is None:
            innermost = name.rpartition(SEPARATOR)[2] or None
            return innermost, innermost, None, None
        instruction = program.instruction(name)
        scheduled = None if instruction is None else self._scheduled(program, instruction)
        if scheduled is None:
            return _NOTHING
        body = scheduled.computation
        return cost_name(scheduled), scheduled.name, body, times_per_run(program, body)

    def _scheduled(self, program: Program, instruction: Instruction) -> Instruction | None:
        """Return the instruction itself, or the one around it that the scheduler sees."""
        if id(program) not in self._launched:
            self._launched[id(program)] = frozenset(
                computation.name for computation in launched(program)
            )
        seen: set[str] = set()
        while instruction.computation not in self._launched[id(program)]:
            callers = program.callers(instruction.computation)
            if not callers or instruction.computation in seen:
                return None
            seen.add(instruction.computation)
            instruction = callers[0]
        return instruction
