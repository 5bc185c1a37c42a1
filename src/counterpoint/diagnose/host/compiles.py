"""Compiles during training: what was compiled after the steps had begun, and what that cost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from counterpoint.core.intervals import Intervals, union
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.host.causes import Cause, cause_of
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.runs import Run
from counterpoint.timeline.model import ProgramEntry

_MODULE: Final = re.compile(r"(?:hlo_)?module=([^,#]+)")
_CALL: Final = re.compile(r"^(?:TSL:)?PjitFunction\((.*)\)$")
WARM: Final = 3
"""Steps of a Run within which compiles belong to the start: the first call, and the second where
the first one's outputs have another layout or sharding than its inputs."""

_REAL_PS: Final = 1_000_000_000
"""A compile takes longer than a millisecond; a look into a cache does not."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Compiling that the profile saw within steps."""

    names: tuple[str, ...]  # functions and modules, the longest first
    ms: float  # in all, where several compile at once counted once
    steps: frozenset[int]  # that had to wait for it
    cost_ms: float  # of a step, on average over all steps: how much longer those took


def compiled_in_steps(case: Case) -> Compiled | None:
    """What hosts compiled between the first steady step and the last one's end."""
    timeline = case.timeline
    steady = timeline.steps.filter("steady")
    wanted = [i for i, name in enumerate(timeline.host_names) if cause_of(name) is Cause.COMPILE]
    if not len(steady) or not wanted:
        return None
    inside = pl.col("start_ps").is_between(steady["start_ps"].min(), steady["end_ps"].max())
    long = pl.col("dur_ps") > _REAL_PS
    events = timeline.host_events.filter(pl.col("name").is_in(wanted) & inside & long)
    if not len(events):
        return None
    start = events["start_ps"].to_numpy()
    times = union(start, start + events["dur_ps"].to_numpy())
    steps, cost = _cost(steady, times)
    if not steps:
        return None
    return Compiled(
        names=_functions(case, times, events), ms=times.total / PS_PER_MS, steps=steps, cost_ms=cost
    )


def _cost(steady: pl.DataFrame, times: Intervals) -> tuple[frozenset[int], float]:
    """Steps with a compile, and by what they are longer than the median of those without.

    Where every step compiles, none tells how long it takes without; then it is the compiling.
    Steps of devices begin at other moments: a compile counts as in the step that has most of it,
    though the next one may wait for it, too.
    """
    start, end = steady["start_ps"].to_numpy(), steady["end_ps"].to_numpy()
    steps = (
        steady.with_columns(
            ms=(pl.col("end_ps") - pl.col("start_ps")) / PS_PER_MS,
            compiling=pl.Series(times.covered(start, end), dtype=pl.Int64) / PS_PER_MS,
        )
        .group_by("step")
        .agg(pl.col("ms").mean(), pl.col("compiling").mean())
    )
    touched, others = steps.filter(pl.col("compiling") > 0), steps.filter(pl.col("compiling") == 0)
    longer = touched["compiling"]
    if len(others):
        longer = (touched["ms"] - float(np.median(others["ms"].to_numpy()))).clip(0)
    return _holding(steady, times), float(longer.sum()) / len(steps)


def _holding(steady: pl.DataFrame, times: Intervals) -> frozenset[int]:
    """The step that has most of each compile, by the median of the devices."""
    windows = steady.group_by("step").agg(pl.col("start_ps", "end_ps").median())
    inside = pl.DataFrame({"from": times.start, "to": times.end}).with_row_index("compile")
    shared = (
        windows.join(inside, how="cross")
        .with_columns(ps=pl.min_horizontal("end_ps", "to") - pl.max_horizontal("start_ps", "from"))
        .filter(pl.col("ps") > 0)
    )
    most = shared.sort("ps", "step", descending=[True, False]).unique("compile", keep="first")
    return frozenset(int(step) for step in most["step"].to_list())


def _functions(case: Case, times: Intervals, compiles: pl.DataFrame) -> tuple[str, ...]:
    """Modules that the compiler names; else the calls around the compiles."""
    names = case.timeline.host_names
    ranked = compiles.group_by("name").agg(pl.col("dur_ps").max()).sort("dur_ps", descending=True)
    modules = [m[1] for n in ranked["name"].to_list() if (m := _MODULE.search(names[int(n)]))]
    if modules:
        return tuple(dict.fromkeys(modules))
    calls = [index for index, name in enumerate(names) if _CALL.match(name)]
    around = case.timeline.host_events.filter(pl.col("name").is_in(calls))
    start = around["start_ps"].to_numpy()
    covered = times.covered(start, start + around["dur_ps"].to_numpy())
    seen = (
        around.with_columns(ps=pl.Series(covered, dtype=pl.Int64))
        .filter(pl.col("ps") > 0)
        .group_by("name")
        .agg(pl.col("ps").sum())
        .sort("ps", descending=True)
    )
    called = (_CALL.match(names[int(index)]) for index in seen["name"].to_list())
    return tuple(match[1] for match in called if match)


def compiled_in_run(run: Run) -> dict[str, tuple[int, float]]:
    """Functions that a Run's timed rank compiled after its first steps: how often, and seconds.

    One that had not been compiled before, an evaluation for instance, counts from its second time.
    """
    rank = run.timed
    if rank is None or len(rank.steps) <= WARM:
        return {}
    begun = rank.steps[WARM].start_s
    seen: set[str] = set()
    found: dict[str, tuple[int, float]] = {}
    for it in rank.compiles:
        if it.kind != "backend" or it.name is None or it.at_s is None or it.aot:
            continue
        if it.name in seen and it.at_s > begun:
            count, seconds = found.get(it.name, (0, 0.0))
            found[it.name] = (count + 1, seconds + it.seconds)
        seen.add(it.name)
    return found


def per_step_ms(run: Run, seconds: float) -> float:
    """Spread over the steps of the run."""
    steps = len(run.timed.steps) if run.timed is not None else 0
    return seconds * 1e3 / steps if steps else 0.0


def shapes_apart(programs: tuple[ProgramEntry, ...], name: str) -> tuple[str, str] | None:
    """The first argument in which two builds of a function differ; None where that is not known."""
    builds = [it.hlo() for it in programs if it.name == name]
    known = [build for build in builds if build is not None]
    for one, two in pairwise(known):
        first, second = (
            {
                it.parameter_number: str(it.shape)
                for it in build.computations[build.entry].instructions
                if it.opcode == "parameter"
            }
            for build in (one, two)
        )
        for number in sorted(k for k in first if k is not None):
            if first[number] != second.get(number, first[number]):
                return first[number], second[number]
    return None
