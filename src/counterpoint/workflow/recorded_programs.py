"""Which program of a recording each program of a step is."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from counterpoint.hlo.model.program import Program
from counterpoint.timeline.model import Timeline


def recorded_programs(
    timeline: Timeline, programs: Sequence[Program], main: int
) -> list[int | None]:
    """Return the number in the Timeline of each of these programs; None of one that did not run.

    They are told by fingerprint, else by name, and of several of one name the one with most device
    time. What the recording takes for the step stands for the main one, if none has its name.
    """
    took = pl.col("end_ps") - pl.col("start_ps")
    ran = timeline.runs.group_by("program").agg(took.sum().alias("ps"))
    free: list[int] = ran.sort("ps", "program", descending=[True, False])["program"].to_list()
    numbers: list[int | None] = [None] * len(programs)
    for is_it in (_is_build, _has_name):
        for at, program in enumerate(programs):
            number = next((it for it in free if is_it(timeline, it, program)), None)
            if numbers[at] is None and number is not None:
                numbers[at] = number
                free.remove(number)
    if numbers[main] is None and timeline.step_program in free:
        numbers[main] = timeline.step_program
    return numbers


def _is_build(timeline: Timeline, number: int, program: Program) -> bool:
    entry = timeline.programs[number]
    own = entry.hlo()
    known = {*entry.fingerprints, *([own.fingerprint] if own is not None else [])}
    return program.fingerprint is not None and program.fingerprint in known


def _has_name(timeline: Timeline, number: int, program: Program) -> bool:
    return timeline.programs[number].name == program.name
