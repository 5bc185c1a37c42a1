"""How long each step is, whether steps grow, and how long those of each build of a function are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import Final

import polars as pl

from counterpoint.core.columns import Intervals
from counterpoint.core.threads import on_threads
from counterpoint.diagnose.host.idle import busy
from counterpoint.diagnose.selection import PS_PER_MS, Selection, device_slices, of_steps
from counterpoint.diagnose.step_data import StepData
from counterpoint.hlo.definition import same_definition
from counterpoint.timeline.model import Timeline

FEWEST: Final = 5
"""Fewer steps do not tell what is usual."""

_GROWTH: Final = 0.2
"""Steps grow if the last third is longer than the first by this share."""

_ORDERED: Final = 0.9
"""Share of pairs of steps of which the later is longer, if steps grow."""

_BY_LENGTH: Final = 1.2
"""Builds of a function differ in length if the longest takes so many times as long."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Steps that grow: milliseconds that each is longer than the one before."""

    per_step_ms: float
    first_ms: float
    last_ms: float
    mean_ms: float
    by_host: bool  # devices are idle for longer and longer


@dataclass(frozen=True, slots=True)
class BuildLengths:
    """Steps that run one or another build of a function, with the steps and length of each."""

    function: str
    steps: Mapping[int, tuple[int, ...]]  # by program
    ms: Mapping[int, float]  # median length
    mean_ms: float  # of all steps

    @property
    def lost_ms(self) -> float:
        """By how much the mean step is longer than those of the shortest build."""
        return max(0.0, self.mean_ms - min(self.ms.values()))


@dataclass(frozen=True, slots=True, eq=False)
class StepParts:
    """The milliseconds of each steady step, mean over devices, and when each device works."""

    length: Mapping[int, float]
    idle: Mapping[int, float]
    windows: pl.DataFrame  # of the steady steps, by device
    busy: Mapping[int, Intervals]


def step_lengths(selection: Selection) -> dict[int, float]:
    """Return the milliseconds of each steady step, in order, mean over devices."""
    lengths = (
        selection.timeline.steps.filter(
            pl.col("steady") & pl.col("device").is_in(selection.devices)
        )
        .group_by("step")
        .agg(ms=(pl.col("end_ps") - pl.col("start_ps")).mean() / PS_PER_MS)
        .sort("step")
    )
    return dict(lengths.iter_rows())


def growth(data: StepData) -> Growth | None:
    """Return by how much steps grow, if nearly each is longer than those before it."""
    if data.selection.step is not None:
        return None
    parts = data.cached(step_parts)
    lengths = [*parts.length.values()]
    if len(lengths) < FEWEST:
        return None
    idle = [*parts.idle.values()]
    third = max(1, len(lengths) // 3)
    first, last = median(lengths[:third]), median(lengths[-third:])
    rise = median(idle[-third:]) - median(idle[:third])
    for values, by_host in ((idle, True), (lengths, False)):
        grew = rise if by_host else last - first
        if grew >= _GROWTH * first and _in_order(values):
            slopes = _slopes(values)
            return Growth(
                per_step_ms=median(slopes),
                first_ms=first,
                last_ms=last,
                mean_ms=mean(lengths),
                by_host=by_host or rise > (last - first) / 2,
            )
    return None


def _in_order(values: Sequence[float]) -> bool:
    pairs = [(a, b) for i, a in enumerate(values) for b in values[i + 1 :]]
    return sum(b > a for a, b in pairs) >= _ORDERED * len(pairs)


def _slopes(values: Sequence[float]) -> list[float]:
    count = len(values)
    return [(values[j] - values[i]) / (j - i) for i in range(count) for j in range(i + 1, count)]


def build_lengths(data: StepData) -> BuildLengths | None:
    """Return how long steps take that run one or another build of the step's function."""
    timeline, parts = data.timeline, data.cached(step_parts)
    main = timeline.step_program
    if data.selection.step is not None or main is None:
        return None
    name = timeline.programs[main].name
    builds = [
        at
        for at, program in enumerate(timeline.programs)
        if program.name == name and (at == main or _same_function(timeline, main, at))
    ]
    runs = (
        timeline.runs.filter(
            pl.col("program").is_in(builds) & pl.col("step").is_in([*parts.length])
        )
        .group_by("step")
        .agg(pl.col("program").unique().sort())
        .sort("step")
    )
    steps: dict[int, list[int]] = {}
    for step, programs in runs.iter_rows():
        if len(programs) != 1:
            return None  # it is one step of several builds, as of two networks
        steps.setdefault(programs[0], []).append(step)
    again = {program: tuple(own) for program, own in steps.items() if len(own) > 1}
    if len(again) < 2:
        return None
    works = {
        program: [parts.length[step] - parts.idle[step] for step in own]
        for program, own in again.items()
    }
    typical = {program: median(values) for program, values in works.items()}
    shortest, longest = (
        sorted(works[choose(typical, key=lambda it: typical[it])]) for choose in (min, max)
    )
    # Nearly all of the longest are longer than nearly all of the shortest.
    apart = longest[len(longest) // 4] > shortest[-1 - len(shortest) // 4]
    if not apart or max(typical.values()) < _BY_LENGTH * min(typical.values()):
        return None
    ms = {program: median(parts.length[step] for step in own) for program, own in again.items()}
    return BuildLengths(name, again, ms, mean(parts.length.values()))


def _same_function(timeline: Timeline, one: int, other: int) -> bool:
    mine, theirs = timeline.programs[one].hlo(), timeline.programs[other].hlo()
    return mine is None or theirs is None or same_definition(mine, theirs) is not False


def step_parts(data: StepData) -> StepParts:
    """Return lengths and idle time of all steady steps."""
    selection = data.selection
    timeline = selection.timeline
    windows = timeline.steps.filter(
        pl.col("steady") & pl.col("device").is_in(selection.devices)
    ).sort("device", "start_ps")
    spans, steps = device_slices(timeline.spans), device_slices(windows)
    works = on_threads(
        lambda device: busy(data, timeline.spans[spans.get(device, slice(0, 0))]), steps
    )
    idle: dict[int, list[float]] = {}
    for rows, times in zip(steps.values(), works, strict=True):
        own = windows[rows]
        start, end = own["start_ps"].to_numpy(), own["end_ps"].to_numpy()
        taken = (end - start - times.covered(start, end)).tolist()
        for step, ps in zip(own["step"].to_list(), taken, strict=True):
            idle.setdefault(step, []).append(ps / PS_PER_MS)
    lengths = step_lengths(selection)
    means = {step: mean(idle[step]) for step in lengths}
    return StepParts(lengths, means, windows, dict(zip(steps, works, strict=True)))


def all_of(data: StepData, steps: Collection[int]) -> StepData:
    """Return the data of these steady steps: times are of one of them, mean over devices."""
    selection = of_steps(data.selection, steps)
    windows = selection.windows
    lengths = step_lengths(selection)
    own = tuple(ms for step, ms in lengths.items() if step in steps)
    total = int((windows["end_ps"] - windows["start_ps"]).sum())
    scale = mean(own) / total if total else 0.0
    chosen = replace(selection, lengths_ms=own, scale=scale)
    return StepData(selection=chosen, context=data.context, stopwatch=data.stopwatch)
