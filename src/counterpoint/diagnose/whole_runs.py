"""Runs of the step's program that a profile contains from beginning to end.

A profile taken by time begins and ends within runs: such a run lacks its first or its last ops, and
its length is how long the profile looked at it. So it says nothing about a step.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from counterpoint.core import InputError
from counterpoint.hlo.model.program import Program, launches
from counterpoint.timeline.model import Timeline

_EDGE: Final = 0.05
"""Share of a program's ops, in their order, that are its beginning, and its end."""
_FEWEST: Final = 3
"""Ops at each edge at least: single ones may not be recorded."""


def whole_runs(timeline: Timeline) -> pl.DataFrame:
    """Return the runs of the step's program without those cut off by the profile's start or end.

    A run is whole if it has any of the first ops of its program, and any of its last. They are
    those of its HLO; without HLO, those that other runs have. A run that can't be judged is kept.
    """
    program = timeline.step_program
    runs = timeline.runs.with_row_index("run").filter(pl.col("program") == program)
    if program is None or runs.is_empty():
        return runs
    seen = (
        timeline.spans.select("run", "op")
        .filter(pl.col("run").is_in(runs["run"].implode()))
        .unique()
        .join(_places(timeline, program), on="op")
    )
    if seen.is_empty():
        return runs
    places = _expected(timeline, program, seen)
    edge = max(_FEWEST, round(_EDGE * len(places)))
    if len(places) <= edge:
        return runs
    ends = seen.group_by("run").agg(
        first=pl.col("place").min() <= places[edge - 1],
        last=pl.col("place").max() >= places[-edge],
    )
    whole = ends.filter(pl.col("first") & pl.col("last"))["run"]
    return runs.filter(pl.col("run").is_in(whole.implode()))


def _hlo(timeline: Timeline, program: int) -> Program | None:
    try:
        return timeline.programs[program].hlo()
    except InputError:  # it can't be read, which a note says
        return None


def _places(timeline: Timeline, program: int) -> pl.DataFrame:
    """Return the place of each op of the program in its order, as far as it has one."""
    ops = timeline.ops.with_row_index("row").filter(pl.col("program") == program)
    hlo = _hlo(timeline, program)
    if hlo is None:
        return _places_by_time(timeline, ops["row"])
    place_of: dict[int, int] = {}
    for row, name in ops.select("row", "op").rows():
        instruction = hlo.instruction(name) if name else None
        if instruction is not None and instruction.computation == hlo.entry:
            place_of[row] = instruction.index
    return pl.DataFrame(
        {"op": [*place_of], "place": [*place_of.values()]},
        schema={"op": pl.UInt32, "place": pl.Int64},
    )


def _places_by_time(timeline: Timeline, ops: pl.Series) -> pl.DataFrame:
    """Return ops in the order in which the run with most of them began them."""
    spans = timeline.spans.filter(pl.col("op").is_in(ops.implode()) & pl.col("run").is_not_null())
    fullest = spans.group_by("run").agg(pl.col("op").n_unique().alias("ops"))
    if fullest.is_empty():
        return pl.DataFrame(schema={"op": pl.UInt32, "place": pl.Int64})
    run = fullest.sort("ops", "run")["run"][-1]
    own = spans.filter(pl.col("run") == run).group_by("op").agg(pl.col("start_ps").min())
    return (
        own.sort("start_ps", "op").with_row_index("place").select("op", pl.col("place").cast(int))
    )


def _expected(timeline: Timeline, program: int, seen: pl.DataFrame) -> list[int]:
    """Return the places of all ops that a whole run has.

    Of what the HLO has beyond those that were seen, only kinds of ops count that were seen: others
    may have no span of their own.
    """
    places = set(seen["place"].unique().to_list())
    hlo = _hlo(timeline, program)
    if hlo is not None:
        entry = hlo.computations[hlo.entry]
        by_place = {instruction.index: instruction for instruction in entry.instructions}
        kinds = {by_place[place].opcode for place in places if place in by_place}
        places |= {
            place
            for place, instruction in by_place.items()
            if instruction.opcode in kinds and launches(instruction)
        }
    return sorted(places)
