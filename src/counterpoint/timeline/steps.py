"""Steps: iterations of the training loop, as the user sees them.

Markers define them if there are any (`step_markers`); else a step is one cycle of the programs that
run (`loop_cycle`), or, where their order shows none, one run of the dominant program, the one on
which devices spend most time. A step lasts from one start to the next, so time
between runs counts, and the last step of a profile is never `whole`: its end is unknown. Whole
steps are `steady`, and counted in statistics, except the profile's first, which includes its
startup, and those of a warm-up, if others remain. A first step that is the only one with an end
counts if the profile contains its beginning. Steps have the numbers of their markers; without
markers they are counted from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import values_of
from counterpoint.timeline.loop_cycle import LoopCycle, cycle_text, find_cycle
from counterpoint.timeline.model import STEPS
from counterpoint.timeline.program_roles import ProgramRoles
from counterpoint.timeline.step_markers import (
    marked_loop,
    match_by_number,
    match_markers,
    most_frequent,
    numbered,
    one_to_a_step,
)

_MOST: Final = 0.9
"""Minimum share of a device's time in kernels that execute a whole number of times per marker."""
_ALIKE: Final = 0.1
"""Maximum deviation from the usual number of spans per step, for steps to be accepted."""


def steps_like_markers(
    spans: pl.DataFrame, markers: pl.DataFrame, host_of_device: Sequence[int]
) -> pl.DataFrame | None:
    """Return steps of all devices, one per marker of their host; None if spans don't fit.

    Markers are in order, with the `step` that each marks.

    Used if the profile names no program: kernels of CUDA graphs name neither their instruction nor
    their program. Since steps are alike, a kernel that runs a whole number of times per marker
    tells where each step begins, even if the host is far ahead of its devices. If no kernels divide
    this way (because the profile began within a step, for example), the steps stay unknown.
    """
    parts: list[pl.DataFrame] = []
    for (device,), own in spans.group_by("device", maintain_order=True):
        index = int(str(device))
        steps = markers.filter(pl.col("host") == host_of_device[index])["step"]
        starts = _starts(own, len(steps)) if len(steps) > 1 else None
        if starts is None:
            return None
        last = int((own["start_ps"] + own["dur_ps"]).to_numpy().max())
        ends = np.append(starts[1:], last)
        parts.append(
            pl.DataFrame({"step": steps, "start_ps": starts, "end_ps": ends}).select(
                pl.col("step").cast(pl.Int32),
                pl.lit(index, pl.UInt16).alias("device"),
                "start_ps",
                "end_ps",
            )
        )
    return pl.concat(parts) if parts else None


def _starts(spans: pl.DataFrame, count: int) -> NDArray[np.int64] | None:
    ops = spans.group_by("op").agg(pl.len(), pl.col("dur_ps").sum(), pl.col("start_ps").min())
    whole = ops.filter(pl.col("len") % count == 0)
    if int(whole["dur_ps"].sum()) < max(1, _MOST * int(ops["dur_ps"].sum())):
        return None
    first = whole.sort("start_ps", "op").row(0, named=True)
    begins = spans.filter(pl.col("op") == first["op"])["start_ps"].sort().to_numpy()
    starts = begins[:: first["len"] // count]
    at = np.searchsorted(starts, spans["start_ps"].to_numpy(), side="right") - 1
    held = np.bincount(at[at >= 0], minlength=count)
    usual = float(np.median(held))
    return starts if (np.abs(held - usual) <= _ALIKE * usual).all() else None


_REMAIN: Final = 2
"""Minimum number of steps that must remain when one is left out as warm-up."""

_BUILDS: Final = 3
"""A function with this many builds that ran once each is recompiled for every call."""

EACH_RUN: Final = " for each run of "
"""Text in the note on a program that runs several times in what may be one step."""

_COUNTED: Final = "numbered from 0"

_WARM_UP: Final = 1.05
"""A leading step this many times longer than every later one may be warm-up."""

_DECAYS: Final = 0.5
"""It is not if a later one exceeds the median by this share of what the leading one does: then it
is one of several slow steps, of a hook for example.
"""


@dataclass(frozen=True, slots=True, eq=False)
class StepsOfRuns:
    """Steps per device, the step of each run (null: none), and how they were found."""

    steps: pl.DataFrame
    step_of_run: pl.Series
    program: int | None
    rule: str
    notes: tuple[str, ...]


def find_steps(
    runs: pl.DataFrame,
    names: list[str],
    markers: pl.DataFrame,
    spans: pl.DataFrame,
    host_of_device: Sequence[int],
    *,
    predicted: bool = False,
    roles: ProgramRoles | None = None,
) -> StepsOfRuns:
    """Find the steps of a Timeline from its runs (with `index`) and its markers (with `host`).

    Spans are used if the profile names no program. A predicted step that was stored as a trace ends
    with its marker.
    """
    on_device = markers.filter(pl.col("device").is_not_null())
    program = dominant(runs)
    if len(on_device):
        steps, rule = _of_devices(on_device)
        whole = steps.with_columns(whole=pl.lit(value=True)) if predicted else steps
        return _finish(whole, rule, runs, spans, program)
    if program is None:
        numbered = _finish(*_of_spans(spans, markers, host_of_device), runs, spans, None)
        # All of a profile is no step that could be left out.
        return replace(numbered, notes=()) if numbered.steps["step"].n_unique() == 1 else numbered
    marked = markers.filter(pl.col("device").is_null())
    if len(marked):
        trains = roles.trains if roles else _never
        loop = marked_loop(runs, names, marked, host_of_device, trains)
        program = program if loop is None else loop.program
        program_runs, notes = _builds(runs, program, names, roles)
        name = names[program]
        matched = (
            match_by_number(program_runs, name, marked, host_of_device)
            if loop is None
            else match_markers(runs, loop, program_runs, name, marked, host_of_device)
        )
        steps, rule = _by_runs(matched.runs, matched.others, matched.marks), matched.rule
        notes += matched.notes
    else:
        steps, rule, notes, program = _unmarked(runs, program, names, roles)
    numbered = _finish(steps, rule, runs, spans, program)
    return replace(numbered, notes=(*notes, *numbered.notes))


def _unmarked(
    runs: pl.DataFrame, program: int, names: list[str], roles: ProgramRoles | None
) -> tuple[pl.DataFrame, str, list[str], int]:
    """Return steps by the order of programs, their rule, notes, and the main program.

    That is the dominant one, if it is part of what repeats: an evaluation may take more time.
    """
    program_runs, notes = _recompiled(runs, program, names, roles)
    cycle = None if notes else find_cycle(runs, names, roles)
    if cycle is None:
        notes += _accumulation(runs, program, names, roles)
        rule = _one_run(f"{names[program]}, the program with most device time, is taken as")
        return _by_runs(program_runs, program_runs.clear()), rule, notes, program
    steps = _by_runs(cycle.runs.with_columns(index="step"), cycle.others)
    main = _main(runs, cycle)
    notes = _shapes(cycle, names)
    if not cycle.is_one_run:
        text = cycle_text(cycle.programs, names)
        rule = f"no markers: the programs that repeat are one step, {text}, {_COUNTED}"
        return steps, rule, notes, main
    if roles is not None and roles.updates(main):
        rule = _one_run(f"{names[main]}, which returns all of the state that it takes, is")
        return steps, rule, notes, main
    which = "with most device time" if names[main] == names[program] else "that trains"
    rule = _one_run(f"{names[main]}, the program {which}, is taken as")
    return steps, rule, [*notes, *_accumulation(runs, main, names, roles)], main


def _one_run(of_what: str) -> str:
    return f"no markers: one run of {of_what} one step, {_COUNTED}"


def _of_devices(markers: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Return the steps that devices mark; a mark may end with its last kernel, before the step."""
    rule = "step markers on the devices"
    ordered = markers.sort("device", "start_ps")
    if not one_to_a_step(ordered, "device"):
        turn = pl.int_range(pl.len()).over("device")
        ordered = ordered.with_columns(step=turn)
        rule += f", whose numbers repeat: steps are {_COUNTED}"
    end = pl.col("start_ps") + pl.col("dur_ps")
    steps = ordered.select(pl.col("step").cast(pl.Int32), "device", "start_ps", end_ps=end)
    return _to_the_next(steps), rule


def _of_spans(
    spans: pl.DataFrame, markers: pl.DataFrame, host_of_device: Sequence[int]
) -> tuple[pl.DataFrame, str]:
    if len(markers):
        name = most_frequent(markers)
        own, marks = numbered(markers.filter(pl.col("name") == name), name)
        steps = steps_like_markers(spans, own, host_of_device)
        if steps is not None:
            return (
                _to_the_next(steps),
                f"{marks}, separated by repeating kernels, because the profile names no program",
            )
    end = pl.col("start_ps") + pl.col("dur_ps")
    # Devices of one host share its clock, so one that works only for a while is idle before it.
    host = pl.col("device").replace_strict(dict(enumerate(host_of_device)), return_dtype=pl.UInt16)
    bounds = (
        spans.group_by("device")
        .agg(pl.col("start_ps").min(), end.max().alias("end_ps"))
        .with_columns(pl.col("start_ps").min().over(host), pl.col("end_ps").max().over(host))
    )
    all_of_it = bounds.sort("device").select(pl.lit(0, pl.Int32).alias("step"), pl.all())
    return _to_the_next(all_of_it), "the profile names no program, so its steps are unknown"


def dominant(runs: pl.DataFrame) -> int | None:
    """Return the program on whose runs devices spend most time."""
    if not len(runs):
        return None
    time = runs.group_by("program").agg((pl.col("end_ps") - pl.col("start_ps")).sum().alias("time"))
    return int(time.sort("time", "program")["program"][-1])


def _builds(
    runs: pl.DataFrame, program: int, names: list[str], roles: ProgramRoles | None
) -> tuple[pl.DataFrame, list[str]]:
    """Return the runs of the dominant program and of all others of its function.

    A function that is recompiled, for other shapes for example, is a program of the same name.
    """
    builds = [
        index
        for index, name in enumerate(names)
        if index == program
        or (name == names[program] and (roles is None or roles.same_function(program, index)))
    ]
    program_runs = runs.filter(pl.col("program").is_in(builds)).sort("device", "start_ps")
    ran = program_runs["program"].n_unique()
    if ran == 1:
        return program_runs, []
    note = _builds_note(ran, names[program])
    index = pl.int_range(pl.len(), dtype=pl.UInt32).over("device").alias("index")
    return program_runs.with_columns(index), [note]


def _builds_note(count: int, name: str) -> str:
    return (
        f"{count} programs named {name} ran: the function was compiled anew, as for other shapes"
        " or static arguments; their steps are counted together"
    )


def _shapes(cycle: LoopCycle, names: list[str]) -> list[str]:
    """Return a note on each function of which steps run one build or another.

    An op that is called eagerly may run in several builds in each step, which is no news.
    """
    notes: list[str] = []
    for part in cycle.programs:
        own = cycle.runs.filter(pl.col("program").is_in(part.builds))
        ran = own["program"].n_unique()
        in_one_step = own.group_by("device", "step").agg(pl.n_unique("program"))["program"].max()
        if ran > 1 and in_one_step == 1:
            notes.append(_builds_note(ran, names[part.program]))
    return notes


def _main(runs: pl.DataFrame, cycle: LoopCycle) -> int:
    """Return the program of a cycle on which devices spend most time, or else its first.

    Of a function with several builds it is the one that runs most often: that of a usual step.
    """
    heaviest = dominant(runs)
    part = next((it for it in cycle.programs if heaviest in it.builds), cycle.programs[0])
    took = (pl.col("end_ps") - pl.col("start_ps")).sum()
    builds = runs.filter(pl.col("program").is_in(part.builds)).group_by("program")
    usual = builds.agg(pl.len().alias("runs"), took.alias("time"))
    return int(usual.sort("runs", "time", "program")["program"][-1])


def _recompiled(
    runs: pl.DataFrame, program: int, names: list[str], roles: ProgramRoles | None
) -> tuple[pl.DataFrame, list[str]]:
    """Return the runs of the dominant program; of all programs of its name if each ran only once.

    In that case a function was recompiled for every call. Builds that ran more often may be
    different functions with the same name.
    """
    program_runs, notes = _builds(runs, program, names, roles)
    turns = program_runs.group_by("device", "program").len()
    if turns["program"].n_unique() >= _BUILDS and turns["len"].max() == 1:
        return program_runs, notes
    return runs.filter(pl.col("program") == program), []


def _accumulation(
    runs: pl.DataFrame, program: int, names: list[str], roles: ProgramRoles | None
) -> list[str]:
    """Return a note if another program runs once for every few runs of the dominant one.

    One that is known to compute nothing for it is not noted: an evaluation.
    """
    device = runs.filter(pl.col("program") == program)["device"].mode().min()
    on_device = runs.filter(pl.col("device") == device).sort("start_ps")
    starts = on_device.filter(pl.col("program") == program)["start_ps"]
    return [
        f"{names[program]} runs {times} times{EACH_RUN}{names[other]}: if that is one step, mark"
        " steps with jax.profiler.StepTraceAnnotation"
        for other in sorted(set(on_device["program"].to_list()) - {program})
        if roles is None or roles.feeds(other, program) is None
        if (times := _between(starts, on_device.filter(pl.col("program") == other)["start_ps"])) > 1
    ][:1]


def _between(starts: pl.Series, others: pl.Series) -> int:
    """Return how many starts lie between successive `others`; 0 if that is not constant.

    A profile may begin and end within a step: starts before the first and after the last of the
    others are not counted, except if there are only two of them, which show no rhythm.
    """
    at = starts.search_sorted(others, side="left").to_numpy().astype(np.int64)
    apart = values_of(np.diff(at))
    if len(apart) != 1 or (len(at) == 2 and len(starts) != 2 * apart[0]):
        return 0
    return int(apart[0])


def _never(program: int) -> bool:
    del program
    return False


def _by_runs(
    runs: pl.DataFrame, others: pl.DataFrame, marks: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return steps made of runs, whose `index` is the step's number.

    A step begins with its first run, or with its marker, if the device had no other work since. It
    ends where the next begins, or one of the `others`: a run that is in no step.
    """
    grouped = (
        runs.with_columns(step=pl.col("index").cast(pl.Int32))
        .group_by("device", "step")
        .agg(pl.col("start_ps").min(), pl.col("end_ps").max())
        .sort("device", "start_ps")
    )
    if marks is not None:
        # A step that was called before the profile began has no mark.
        before = pl.col("end_ps").shift(1).over("device")
        begun = marks.select(
            "device", pl.col("index").cast(pl.Int32).alias("step"), mark="start_ps"
        )
        grouped = (
            grouped.join(begun, on=["device", "step"], how="left")
            .with_columns(
                start_ps=pl.when(pl.col("mark").is_not_null())
                .then(pl.min_horizontal("start_ps", pl.max_horizontal("mark", before)))
                .otherwise("start_ps")
            )
            .drop("mark")
        )
    both = [grouped, others.select("device", "start_ps")]
    return _to_the_next(pl.concat(both, how="diagonal").sort("device", "start_ps"))


def _to_the_next(steps: pl.DataFrame) -> pl.DataFrame:
    """Extend each step to the next start on its device; the last keeps its end and is not whole.

    Rows without a number are starts of something else.
    """
    next_ps = pl.col("start_ps").shift(-1).over("device")
    return (
        steps.with_columns(next_ps=next_ps)
        .filter(pl.col("step").is_not_null())
        .select(
            "step",
            "device",
            "start_ps",
            end_ps=pl.coalesce("next_ps", "end_ps"),
            whole=pl.col("next_ps").is_not_null(),
        )
    )


def _finish(
    steps: pl.DataFrame, rule: str, runs: pl.DataFrame, spans: pl.DataFrame, program: int | None
) -> StepsOfRuns:
    step_of_run = _step_of_run(runs, steps)
    length = pl.col("end_ps") - pl.col("start_ps")
    each = (
        steps.group_by("step")
        .agg(pl.col("whole").all(), pl.col("start_ps").min(), ms=length.median() / 1e9)
        .sort("start_ps", "step")
    )
    notes = [
        f"step {step} is left out: no later one tells where it ends"
        for step in each.filter(~pl.col("whole"))["step"].to_list()
    ]
    seen = dict(each.filter("whole").select("step", "ms").iter_rows())
    only = next(iter(seen)) if len(seen) == 1 else None
    if only is not None and _begins_late(only, runs, step_of_run, spans):
        notes.append(f"step {only} is left out: the profile begins in the middle of it")
        seen = {}
    steady, more = _steady(seen)
    steps = steps.with_columns(
        whole=pl.col("step").is_in([*seen]), steady=pl.col("step").is_in(steady)
    ).cast({**STEPS})
    return StepsOfRuns(steps.select(*STEPS), step_of_run, program, rule, (*more, *notes))


def _begins_late(
    step: int, runs: pl.DataFrame, step_of_run: pl.Series, spans: pl.DataFrame
) -> bool:
    """Return whether a step's runs lack ops that the same programs have in another step."""
    known = runs.with_row_index("run").with_columns(step=step_of_run)
    step_programs = known.filter(pl.col("step") == step).select("device", "program").unique()
    alike = known.filter(pl.col("step").is_not_null()).join(step_programs, on=["device", "program"])
    ops = (
        alike.select("run", own=pl.col("step") == step)
        .join(spans.select("run", "device", "op"), on="run")
        .group_by("device", "op")
        .agg(pl.col("own").any())
    )
    return not ops["own"].all()


def _steady(whole: dict[int, float]) -> tuple[list[int], list[str]]:
    """Return the numbers of the steps that count, and notes on the others.

    `whole` is in milliseconds.
    """
    numbers, times = [*whole], [*whole.values()]
    notes: list[str] = []
    if len(numbers) > 1:
        notes.append(f"step {numbers[0]} is left out of the statistics: it is the profile's first")
        numbers, times = numbers[1:], times[1:]
    while len(numbers) > _REMAIN and _warms_up(times):
        notes.append(
            f"step {numbers[0]} is left out as warm-up: {times[0]:,.1f} ms, later steps take at"
            f" most {max(times[1:]):,.1f} ms"
        )
        numbers, times = numbers[1:], times[1:]
    return numbers, notes


def _warms_up(times: Sequence[float]) -> bool:
    """Return whether the first of the steps is longer than all others as none of them is."""
    first, later = times[0], max(times[1:])
    usual = median(times[1:])
    return first > _WARM_UP * later and later - usual < _DECAYS * (first - usual)


def _step_of_run(runs: pl.DataFrame, steps: pl.DataFrame) -> pl.Series:
    """Return the step of each run: the one in which it starts."""
    result: NDArray[np.int64] = np.full(len(runs), -1)
    device, start = runs["device"].to_numpy(), runs["start_ps"].to_numpy()
    step_device = steps["device"].to_numpy()
    starts, ends, numbers = (steps[name].to_numpy() for name in ("start_ps", "end_ps", "step"))
    for number in values_of(step_device):
        first, last = np.searchsorted(step_device, [number, number + 1])
        rows = np.flatnonzero(device == number)
        at = first + np.searchsorted(starts[first:last], start[rows], side="right") - 1
        inside = (at >= first) & (start[rows] < ends[np.maximum(at, first)])
        result[rows[inside]] = numbers[at[inside]]
    return pl.Series("step", result).replace(-1, None).cast(pl.Int32)
