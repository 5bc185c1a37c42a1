"""Steps: what a user means by one turn of the training loop.

Told by markers where there are any (`marked`); else a step is one run of the dominant program, the
one on which devices spend most time. A step lasts from one start to the next, so time between runs
counts.
The first steps of a profile pay for its start, and the last has no next start: where enough others
remain they are not `steady`, and statistics leave them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.timeline.marked import match_markers, most_frequent
from counterpoint.timeline.model import STEPS
from counterpoint.timeline.nameless import steps_like_markers

_ENOUGH: Final = 3
"""Steady steps that must remain before a doubtful one is left out."""

_WARM_UP: Final = 1.05
"""A leading step this many times longer than every later one is warm-up."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundSteps:
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
) -> FoundSteps:
    """Find the steps of a Timeline from its runs (with `index`) and its markers (with `host`).

    Spans tell them where the profile names no program.
    """
    on_device = markers.filter(pl.col("device").is_not_null())
    program = dominant(runs)
    if len(on_device):
        found = on_device.select(
            pl.col("step").cast(pl.Int32),
            "device",
            "start_ps",
            end_ps=pl.col("start_ps") + pl.col("dur_ps"),
        ).sort("device", "start_ps")
        return _finish(found, "step markers on the devices", runs, program)
    if program is None:
        return _finish(*_of_spans(spans, markers, host_of_device), runs, None)
    marked = markers.filter(pl.col("device").is_null())
    if len(marked):
        mine, notes = _builds(runs, program, names)
        matched = match_markers(mine, names[program], marked, host_of_device)
        steps, rule = _by_runs(matched.runs, matched.others), matched.rule
        notes += matched.notes
    else:
        name = names[program]
        mine, notes = _recompiled(runs, program, names)
        steps = _by_runs(mine, mine.clear())
        rule = f"no markers: one run of {name}, the program with most device time, is one step"
        notes += _accumulation(runs, program, names)
    found = _finish(steps, rule, runs, program)
    return replace(found, notes=(*notes, *found.notes))


def _of_spans(
    spans: pl.DataFrame, markers: pl.DataFrame, host_of_device: Sequence[int]
) -> tuple[pl.DataFrame, str]:
    if len(markers):
        name = most_frequent(markers)
        own = markers.filter(pl.col("name") == name)
        steps = steps_like_markers(spans, own, host_of_device)
        if steps is not None:
            marks = f"{steps['step'].n_unique()} host markers '{name}'"
            return steps, f"{marks}, told apart by kernels, for no program is named in the profile"
    end = pl.col("start_ps") + pl.col("dur_ps")
    bounds = spans.group_by("device").agg(pl.col("start_ps").min(), end.max().alias("end_ps"))
    whole = bounds.sort("device").select(pl.lit(0, pl.Int32).alias("step"), pl.all())
    return whole, "no program is named in the profile: all of it is taken as one step"


def dominant(runs: pl.DataFrame) -> int | None:
    """The program on whose runs devices spend most time."""
    if not len(runs):
        return None
    time = runs.group_by("program").agg((pl.col("end_ps") - pl.col("start_ps")).sum().alias("time"))
    return int(time.sort("time", "program")["program"][-1])


def _builds(runs: pl.DataFrame, program: int, names: list[str]) -> tuple[pl.DataFrame, list[str]]:
    """Runs of the dominant program and of all others of its name.

    A function that is compiled again, for other shapes say, is a program of the same name.
    """
    builds = [index for index, name in enumerate(names) if name == names[program]]
    mine = runs.filter(pl.col("program").is_in(builds)).sort("device", "start_ps")
    ran = mine["program"].n_unique()
    if ran == 1:
        return mine, []
    note = (
        f"{ran} programs named {names[program]} ran: the function was compiled for other shapes"
        " or static arguments; their steps are counted together"
    )
    index = pl.int_range(pl.len(), dtype=pl.UInt32).over("device").alias("index")
    return mine.with_columns(index), [note]


def _recompiled(
    runs: pl.DataFrame, program: int, names: list[str]
) -> tuple[pl.DataFrame, list[str]]:
    """Runs of the dominant program; of all of its name where each ran but once.

    Then a function was compiled anew for every call. Builds that ran more often may be functions of
    their own that share a name, and nothing tells.
    """
    mine, notes = _builds(runs, program, names)
    turns = mine.group_by("device", "program").len()
    if turns["program"].n_unique() >= _ENOUGH and turns["len"].max() == 1:
        return mine, notes
    return runs.filter(pl.col("program") == program), []


def _accumulation(runs: pl.DataFrame, program: int, names: list[str]) -> list[str]:
    """Say so when another program runs once for every few runs of the dominant one."""
    per_device = (
        runs.group_by("device", "program").len().group_by("program").agg(pl.col("len").max())
    )
    counts = dict(per_device.rows())
    own = counts[program]
    return [
        f"{names[program]} runs {own // count} times for each run of {names[other]}: if that is one"
        " step, mark steps with jax.profiler.StepTraceAnnotation"
        for other, count in sorted(counts.items())
        if other != program and count > 1 and own >= 2 * count and own % count == 0
    ][:1]


def _by_runs(runs: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Steps of runs by `index`; one ends where the next begins, the last with its last run.

    It ends before that where one of the `others` begins: a run that is in no step.
    """
    grouped = (
        runs.with_columns(step=pl.col("index").cast(pl.Int32))
        .group_by("device", "step")
        .agg(pl.col("start_ps").min(), pl.col("end_ps").max())
    )
    return (
        pl.concat([grouped, others.select("device", "start_ps")], how="diagonal")
        .sort("device", "start_ps")
        .with_columns(next_ps=pl.col("start_ps").shift(-1).over("device"))
        .filter(pl.col("step").is_not_null())
        .select("step", "device", "start_ps", end_ps=pl.coalesce("next_ps", "end_ps"))
    )


def _finish(steps: pl.DataFrame, rule: str, runs: pl.DataFrame, program: int | None) -> FoundSteps:
    steady, notes = _steady(steps)
    steps = steps.with_columns(steady=pl.col("step").is_in(steady)).cast({**STEPS})
    return FoundSteps(steps.select(*STEPS), _step_of_run(runs, steps), program, rule, tuple(notes))


def _steady(steps: pl.DataFrame) -> tuple[list[int], list[str]]:
    """Numbers of the steps that count, and what is said of the others."""
    length = (
        steps.group_by("step")
        .agg(((pl.col("end_ps") - pl.col("start_ps")).median() / 1e9).alias("ms"))
        .sort("step")
    )
    numbers, times = length["step"].to_list(), length["ms"].to_list()
    notes: list[str] = []
    if len(numbers) >= _ENOUGH:
        notes.append(f"step {numbers[0]} is left out of the statistics: the profile's first")
        numbers, times = numbers[1:], times[1:]
    while len(numbers) > _ENOUGH and times[0] > _WARM_UP * max(times[1:]):
        notes.append(
            f"step {numbers[0]} is left out as warm-up: {times[0]:,.1f} ms, later steps take at"
            f" most {max(times[1:]):,.1f} ms"
        )
        numbers, times = numbers[1:], times[1:]
    if len(numbers) > _ENOUGH:
        notes.append(f"step {numbers[-1]} is left out: no later start tells where it ends")
        numbers = numbers[:-1]
    return numbers, notes


def _step_of_run(runs: pl.DataFrame, steps: pl.DataFrame) -> pl.Series:
    """A run belongs to the step in which it starts."""
    result: NDArray[np.int64] = np.full(len(runs), -1)
    device, start = runs["device"].to_numpy(), runs["start_ps"].to_numpy()
    step_device = steps["device"].to_numpy()
    starts, ends, numbers = (steps[name].to_numpy() for name in ("start_ps", "end_ps", "step"))
    for one in np.unique(step_device):
        first, last = np.searchsorted(step_device, [one, one + 1])
        mine = np.flatnonzero(device == one)
        at = first + np.searchsorted(starts[first:last], start[mine], side="right") - 1
        inside = (at >= first) & (start[mine] < ends[np.maximum(at, first)])
        result[mine[inside]] = numbers[at[inside]]
    return pl.Series("step", result).replace(-1, None).cast(pl.Int32)
