"""Trip counts of loops that end when their data says so: solvers, samplers, generation.

The compiler does not know them. The user may, by the loop's name or source line; and a profile of
the same program does, on whatever devices it ran: it has the executions of what is in the loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import polars as pl

from counterpoint.core import InputError, UsageError
from counterpoint.core.printable import some
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.provenance import provenance
from counterpoint.hlo.told_trips import unknown_loops, with_trips
from counterpoint.runs.timeline import read
from counterpoint.timeline.model import Timeline

_TOLD: Final = re.compile(r"(.+)=(\d{1,12})")
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class MeasuredLoop:
    """How often a loop turned in a profile, each time that it ran: median, least and most."""

    source: str
    scope: str
    trips: float
    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTrips:
    """Trip counts by name or source line, and those that a profile measured."""

    told: Mapping[str, int] = field(default_factory=dict[str, int])
    measured: tuple[MeasuredLoop, ...] = ()
    origin: str = ""  # of the measured

    def applied(self, program: Program) -> tuple[Program, tuple[str, ...]]:
        """Return the program with the counts that are known, and notes on them."""
        if not self.told and not self.measured:
            return program, ()
        trips: dict[str, int] = {}
        notes: list[str] = []
        for loop in unknown_loops(program):
            said = next(
                (n for name, n in self.told.items() if _is_named(program, loop, name)), None
            )
            if said is not None:
                trips[loop.name] = said
                notes.append(f"{loop.name} turns {said:,} times, as told")
            elif (measured := self._measured(program, loop)) is not None:
                trips[loop.name] = round(measured.trips)
                spread = ""
                if measured.least != measured.most:
                    spread = f" ({measured.least:,.0f} to {measured.most:,.0f})"
                other = measured.source != provenance(program, loop).source
                place = f", as the loop of its {measured.source}" if other else ""
                notes.append(
                    f"{loop.name} turns {trips[loop.name]:,} times{spread}, measured by"
                    f" {self.origin}{place}"
                )
        return with_trips(program, trips), tuple(notes)

    def _measured(self, program: Program, loop: Instruction) -> MeasuredLoop | None:
        """Return the loop of the same line, of a file that may lie in another directory there."""
        origin = provenance(program, loop)
        for exact in (True, False):
            for each in self.measured:
                same = each.source == origin.source
                if same and (not exact or each.scope == origin.scope):
                    return each
        same_name = [
            it for it in self.measured if _file_name(it.source) == _file_name(origin.source)
        ]
        return same_name[0] if len({it.source for it in same_name}) == 1 else None

    def without_counts(self, programs: Sequence[Program]) -> tuple[str, ...]:
        """Return a warning if a profile was to count loops, and has none of these.

        The programs have the counts that are known.
        """
        if not self.measured:
            return ()
        has = some(list(dict.fromkeys(it.source for it in self.measured)), _SHOWN)
        open_ones = [
            f"{loop.name} ({provenance(program, loop).source})"
            for program in programs
            for loop in unknown_loops(program)
        ]
        if open_ones:
            lost = some(open_ones, _SHOWN)
            return (f"{self.origin} has no count for {lost}: it has those of the loops at {has}",)
        if any(self._measured(program, it) for program in programs for it in _loops(program)):
            return ()
        return (
            f"{self.origin} counts the loops at {has}: the step has no loop of unknown trip count",
        )

    def check(self, programs: Sequence[Program]) -> None:
        """Raise an error for a name that is of no loop whose count is unknown."""
        for name in self.told:
            loops = [(program, it) for program in programs for it in _loops(program)]
            if any(_is_named(program, loop, name) for program, loop in loops):
                continue
            open_ones = [
                f"{loop.name} ({provenance(program, loop).source})"
                for program in programs
                for loop in unknown_loops(program)
            ]
            known = some(open_ones, _SHOWN) if open_ones else "none"
            raise UsageError(
                f"--trips {name}=...: there is no such loop",
                why=f"loops of unknown trip count, by name and source line: {known}",
                next="omit --trips",
            )


def _loops(program: Program) -> Iterator[Instruction]:
    return (it for it in program.instructions if it.opcode == "while")


def _file_name(source: str | None) -> str:
    """Return the file and the line without the directory."""
    return (source or "").replace("\\", "/").rpartition("/")[2]


def _is_named(program: Program, loop: Instruction, name: str) -> bool:
    source = provenance(program, loop).source
    return loop.name == name or (source is not None and f"/{source}".endswith(f"/{name}"))


def read_trips(told: Sequence[str], measured: Path | str | None) -> LoopTrips:
    """Parse `NAME=N`, and read the counts of a Run or a profile."""
    counts: dict[str, int] = {}
    for text in told:
        match = _TOLD.fullmatch(text)
        if match is None:
            raise UsageError(
                f"--trips {text}: a loop and its trip count are expected",
                why="the loop is named by its instruction or its source line",
                next="use --trips while.5=40",
            )
        counts[match[1]] = int(match[2])
    if measured is None:
        return LoopTrips(told=counts)
    return LoopTrips(told=counts, measured=_measure(measured), origin=str(measured))


def _measure(path: Path | str) -> tuple[MeasuredLoop, ...]:
    timeline = read(str(path))
    loops = tuple(
        loop
        for number, entry in enumerate(timeline.programs)
        if (program := entry.hlo()) is not None
        for loop in _in_program(timeline, number, program)
    )
    if not loops:
        raise InputError(
            f"{path}: it shows no loop of unknown trip count",
            why="such a loop is recognized by the HLO in a profile, and counted by what ran in it",
            next="counterpoint run -- python train.py",
        )
    return loops


def _in_program(timeline: Timeline, number: int, program: Program) -> Iterator[MeasuredLoop]:
    loops = unknown_loops(program)
    if not loops:
        return
    ops = timeline.ops.with_row_index("row").filter(pl.col("program") == number)
    name_of = dict(ops.select("row", "op").rows())
    ran = (
        timeline.spans.filter(pl.col("op").is_in([*name_of]) & pl.col("run").is_not_null())
        .group_by("run", "op")
        .len()
    )
    counts: dict[int, dict[str, int]] = {}
    for run, op, count in ran.rows():
        counts.setdefault(run, {})[name_of[op]] = count
    for loop in loops:
        turns = [
            inside / outside
            for of_run in counts.values()
            if (inside := _times(program, loop.calls[0], of_run))
            and (outside := _times(program, loop.computation, of_run))
        ]
        source = provenance(program, loop).source
        if turns and source is not None:
            scope = provenance(program, loop).scope
            yield MeasuredLoop(source, scope, median(turns), min(turns), max(turns))


def _times(program: Program, computation: str, ran: Mapping[str, int]) -> float:
    """Return how often a computation was executed in a run, by the ops in it that ran."""
    if computation == program.entry:
        return 1.0
    own = program.computations[computation].instructions
    counts = [ran[it.name] for it in own if it.name in ran and it.opcode != "while"]
    return float(median(counts)) if counts else 0.0
