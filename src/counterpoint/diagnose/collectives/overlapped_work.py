"""Work that the schedule places between a start and its done.

`Work` has that of the same computation, by its position. Instructions of loops, calls and branches
are in computations of their own, so `work_in_calls` finds them by time: what runs there after the
start and before the first work behind the done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.diagnose.selection import Selection
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.schedule import async_pairs
from counterpoint.hlo.transfers import transfer_of
from counterpoint.timeline.model import Lane

_CALLING: Final = ("while", "conditional", "call")

_RUN: Final = ("device", "run")

Longs = NDArray[np.int64]

Called = Mapping[tuple[int, str], frozenset[str]]
"""The computations that run before the done of a start, by the start's program and name."""

KEYS: Final = ("device", "run", "program", "name", "turn")


def work_in_calls(
    selection: Selection, spans: pl.DataFrame, starts: pl.DataFrame, work: Work, called: Called
) -> pl.DataFrame:
    """Add `called_ps` to starts: the end of the last such work; null if there is none.

    `starts` and `work` are executions with their places, as numbered by `arrivals`.
    """
    if not called:
        return starts.with_columns(called_ps=pl.lit(None, pl.Int64))
    limited = _limits(starts, work)
    rows = _rows_of(selection, called)
    parts = [
        _last_in(spans, limited, program, names, rows[program, inside])
        for (program, inside), names in _by_callees(called).items()
    ]
    return starts.join(pl.concat(parts), on=[*KEYS], how="left")


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Executed work, sorted by `place`: first by the execution of a computation, then by position.

    A place is the number of an execution times `positions`, plus the position in the schedule.
    """

    place: Longs
    begin_ps: Longs
    end_ps: Longs
    positions: int

    def last_before(self, starts: pl.DataFrame) -> pl.Series:
        """Return the end of the last work of each start's execution between it and its done."""
        where, done = starts["where"].to_numpy(), starts["done_position"].to_numpy()
        at = np.searchsorted(self.place, where * self.positions + done) - 1
        own = starts["position"].fill_null(self.positions).to_numpy()
        is_inside = (at >= 0) & (self._place_at(at) > where * self.positions + own)
        return _where(is_inside, self.end_ps, at)

    def first_behind(self, starts: pl.DataFrame) -> pl.Series:
        """Return when the first work behind each start's done begins, in the same execution."""
        where, done = starts["where"].to_numpy(), starts["done_position"].to_numpy()
        at = np.searchsorted(self.place, where * self.positions + done, side="right")
        is_inside = (at < len(self.place)) & (self._place_at(at) < (where + 1) * self.positions)
        return _where(is_inside, self.begin_ps, at)

    def _place_at(self, at: Longs) -> Longs:
        return np.append(self.place, -1)[np.clip(at, -1, len(self.place))]


def _where(is_known: NDArray[np.bool_], values: Longs, at: Longs) -> pl.Series:
    """Return the values at these positions, null where none was found."""
    taken = np.append(values, 0)[np.where(is_known, at, -1)]
    return pl.select(pl.when(pl.Series(is_known)).then(pl.Series(taken))).to_series()


def called_computations(selection: Selection, executed: pl.DataFrame) -> Called:
    """Return the computations called between start and done of these ops, if any."""
    called: dict[tuple[int, str], frozenset[str]] = {}
    awaited = (
        executed.filter(
            pl.col("part").is_in(["start", "window"]) & pl.col("done_position").is_not_null()
        )
        .select("program", "name")
        .drop_nulls()
        .unique()
    )
    for index, name in awaited.sort("program", "name").rows():
        program = selection.timeline.programs[int(index)].hlo()
        inside = frozenset(_between(program, name)) if program else frozenset[str]()
        if inside:
            called[index, name] = inside
    return called


def _between(program: Program, name: str) -> Iterator[str]:
    start = program.instruction(name)
    done = done_of(program, start) if start else None
    if start is None or done is None:
        return
    instructions = program.computations[start.computation].instructions
    for instruction in instructions[start.index + 1 : done.index]:
        yield from callees(program, instruction)


def done_of(program: Program, start: Instruction) -> Instruction | None:
    """Return what waits for a start; for a transfer between slices, the end of its receive."""
    transfer = transfer_of(program, start)
    if transfer is not None:
        return program.instruction(transfer.recv_done or transfer.send_done or "")
    return program.instruction(async_pairs(program).get(start.name, ""))


def callees(program: Program, instruction: Instruction) -> Iterator[str]:
    """Yield the computations that a loop, call or branch runs, including nested ones."""
    if instruction.opcode not in _CALLING:
        return
    for name in instruction.calls:
        yield name
        for inner in program.computations[name].instructions:
            yield from callees(program, inner)


def _by_callees(called: Called) -> dict[tuple[int, frozenset[str]], list[str]]:
    grouped: dict[tuple[int, frozenset[str]], list[str]] = {}
    for (program, name), inside in called.items():
        grouped.setdefault((program, inside), []).append(name)
    return grouped


def _rows_of(selection: Selection, called: Called) -> dict[tuple[int, frozenset[str]], list[int]]:
    """Return the rows of the ops that compute or copy in those computations."""
    ops = (
        selection.timeline.ops.with_row_index("row")
        .filter(pl.col("lane").is_in([Lane.COMPUTE, Lane.COPY]) & pl.col("pair").is_null())
        .select("row", "program", "computation")
    )

    def rows(program: int, inside: Iterable[str]) -> list[int]:
        wanted = (pl.col("program") == program) & pl.col("computation").is_in(list(inside))
        return ops.filter(wanted)["row"].to_list()

    computations = {(program, inside) for (program, _), inside in called.items()}
    return {key: rows(*key) for key in computations}


def _limits(starts: pl.DataFrame, work: Work) -> pl.DataFrame:
    """Add `limit_ps` to starts: when the first work behind the done, or the next turn, starts."""
    following = pl.col("start_ps").sort().shift(-1).over("device", "run", "program", "name")
    return starts.with_columns(next_ps=following.sort_by("start_ps")).with_columns(
        limit_ps=pl.coalesce(work.first_behind(starts), "next_ps", pl.lit(2**63 - 1))
    )


def _last_in(
    spans: pl.DataFrame, starts: pl.DataFrame, program: int, names: list[str], rows: list[int]
) -> pl.DataFrame:
    inside = (
        spans.filter(pl.col("op").is_in(rows))
        .with_columns(pl.col("run").cast(pl.Int64).fill_null(-1))
        .select(*_RUN, begin_ps="start_ps", called_ps=pl.col("start_ps") + pl.col("dur_ps"))
        .sort("begin_ps")
    )
    own = (pl.col("program") == program) & pl.col("name").is_in(names)
    return (
        starts.filter(own)
        .sort("limit_ps")
        .join_asof(
            inside,
            left_on="limit_ps",
            right_on="begin_ps",
            by=[*_RUN],
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        .filter(pl.col("called_ps") > pl.col("start_ps"))
        .select("program", "name", *_RUN, "turn", "called_ps")
    )
