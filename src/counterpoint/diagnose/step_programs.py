"""The programs of a step: what runs in nearly every one, how often, in what order, for how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.finding import ms_text
from counterpoint.diagnose.selection import Selection, select
from counterpoint.timeline.model import Timeline

_LISTED: Final = 4
"""Builds of a function whose step times are listed."""
_EVERY: Final = 0.9
"""Least share of steps in which a program runs that is part of them."""
_LITTLE: Final = 0.01
"""Share of the time of a step's programs below which one is only a helper of the others."""


@dataclass(frozen=True, slots=True)
class ProgramInStep:
    """How often a step runs a program, and the milliseconds that this takes: mean over devices.

    They are those of typical steps, as all parts of one are. `place` is its turn within the step,
    from 0. `builds` are the programs of its function, for other shapes or static arguments, of
    which a step runs one or another; itself among them.
    """

    runs: int
    ms: float
    place: int | None
    builds: tuple[int, ...]


def programs_in_step(of: Timeline | Selection) -> Mapping[int, ProgramInStep]:
    """Return the programs that are part of a step, the heaviest first.

    There are none if no step was recorded whole. A function with several builds is one program.
    """
    selection = select(of) if isinstance(of, Timeline) else of
    timeline = selection.timeline
    whole = timeline.steps.filter("steady")
    if whole.is_empty():
        whole = timeline.steps.filter("whole")
    whole = whole.select("step", "device", begin_ps="start_ps")
    if whole.is_empty():
        return {}
    build_of = _builds(timeline)
    typical = selection.windows.select("step", "device", typical=pl.lit(value=True))
    took = pl.col("end_ps") - pl.col("start_ps")
    each = (
        timeline.runs.join(whole, on=["step", "device"])
        .join(typical, on=["step", "device"], how="left")
        .with_columns(pl.col("program").replace(build_of))
        .group_by("program", "step", "device", "typical")
        .agg(
            pl.len().alias("runs"),
            took.sum().alias("ps"),
            after_ps=(pl.col("start_ps") - pl.col("begin_ps")).min(),
        )
    )
    usual = (
        each.group_by("program")
        .agg(
            share=pl.len() / len(whole),
            runs=pl.col("runs").mode().min(),
            ms=pl.col("ps").filter(pl.col("typical")).sum() * selection.scale,
            after_ps=pl.col("after_ps").median(),
        )
        .filter(pl.col("share") >= _EVERY)
        .sort("after_ps", "program")
        .with_row_index("place")
        .sort("ms", "program", descending=[True, False])
    )
    return {
        program: ProgramInStep(
            runs=runs,
            ms=ms,
            place=place,
            builds=(*sorted(build for build, main in build_of.items() if main == program),),
        )
        for program, runs, ms, place in usual.select("program", "runs", "ms", "place").rows()
    }


def _builds(timeline: Timeline) -> dict[int, int]:
    """Return the program that stands for each: of those of one name, the one that runs most often.

    That is the step's main program, if it is one of them. Programs of one name that run in the same
    step are parts of it, each for itself.
    """
    ran = timeline.runs.filter(pl.col("step").is_not_null())
    is_main = pl.col("program").eq_missing(timeline.step_program)
    often = ran.group_by("program").agg(pl.len(), pl.col("step").unique())
    often = often.with_columns(is_main=is_main)
    often = often.sort("is_main", "len", "program", descending=[True, True, False])
    steps_of: dict[int, list[int]] = dict(often.select("program", "step").iter_rows())
    functions: dict[str, list[int]] = {}
    for program in steps_of:
        functions.setdefault(timeline.programs[program].name, []).append(program)
    build_of = {program: program for program in steps_of}
    for builds in functions.values():
        steps = [step for build in builds for step in steps_of[build]]
        if len({*steps}) == len(steps):
            build_of |= dict.fromkeys(builds, builds[0])
    return build_of


def main_programs(parts: Mapping[int, ProgramInStep]) -> tuple[int, ...]:
    """Return the programs of a step without those that take next to nothing of it."""
    least = _LITTLE * sum(part.ms for part in parts.values())
    return tuple(program for program, part in parts.items() if part.ms >= least)


def steps_by_build(selection: Selection, parts: Mapping[int, ProgramInStep]) -> Iterator[str]:
    """Yield a note on the steps of each build, where a step runs one or another of a function."""
    timeline = selection.timeline
    several = [part for part in (parts[main] for main in main_programs(parts)) if part.builds[1:]]
    if not several:
        return
    lengths = (
        timeline.steps.filter("steady")
        .group_by("step")
        .agg(ms=(pl.col("end_ps") - pl.col("start_ps")).mean() / 1e9)
    )
    for part in several:
        of_builds = timeline.runs.filter(pl.col("program").is_in(part.builds))
        each = (
            of_builds.select("step", "program")
            .unique()
            .join(lengths, on="step")
            .group_by("program")
            .agg(pl.len().alias("steps"), pl.col("ms").median())
            .sort("steps", "ms", descending=True)
        )
        if each["steps"].max() == 1:
            continue  # a function that is compiled for each call has no typical step of a build
        listed = ", ".join(
            f"{ms_text(ms)} in {counted_noun(steps, 'step')}"
            for steps, ms in each.select("steps", "ms").head(_LISTED).rows()
        )
        more = len(each) - _LISTED
        others = f" and {counted_noun(more, 'other build')}" if more > 0 else ""
        name = timeline.programs[part.builds[0]].name
        yield f"median step by build of {name}: {listed}{others}"
