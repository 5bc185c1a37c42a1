"""A side of a comparison: the named input, read as far as possible.

A Run provides its settings, its versions and the time of its steps without a profiler, and its
profile shows where the time goes. A profile or a stored prediction provides the time of its own
steps. What is missing is listed in `missing`, and the rest is compared anyway.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Final, TypeAlias

import polars as pl

from counterpoint.capture.losses import Losses, read_losses
from counterpoint.core import Basis, InputError, Unknown
from counterpoint.diagnose.compare.step_time import RunSteps
from counterpoint.diagnose.selection import (
    PS_PER_MS,
    Selection,
    WindowKind,
    require_devices,
    select,
    select_runs,
)
from counterpoint.diagnose.step_data import StepData, context_of
from counterpoint.diagnose.step_programs import main_programs, programs_in_step
from counterpoint.runs.layout import is_run
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import BURSTS, Run
from counterpoint.runs.scores import score_of_steps
from counterpoint.runs.steady import settled
from counterpoint.runs.timeline import read
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.reading import Progress

Input: TypeAlias = str | PathLike[str] | Run | Timeline

PROFILE: Final = "profile"
"""The source of times that contain the profiler's overhead."""
_MS_PER_S: Final = 1e3
_HEAD: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One run: its name as given, and what is known about it."""

    name: str
    run: Run | None
    timeline: Timeline | None
    times: RunSteps | None
    profiled: RunSteps | None = None  # the steps of its profile, with the profiler's overhead
    missing: tuple[str, ...] = ()  # why it has no profile, or no device in it
    untimed: str | None = None  # why it has no step time
    losses: Losses = field(default_factory=Losses)
    fault: str | None = None  # why its step time does not count: `faults.py`

    @property
    def timed_in_profile(self) -> bool | None:
        """Whether its steps were timed while the profiler ran; None if they were not measured."""
        if self.times is None or self.times.basis is not Basis.MEASURED:
            return None
        return self.times.source == PROFILE

    @property
    def basis(self) -> Basis:
        """Basis of its step time: a Run was measured."""
        return Basis.MEASURED if self.timeline is None else self.timeline.basis


def side_of(given: Input, progress: Progress | None = None) -> Side:
    """Read a Run, a profile or a stored Timeline by name, or use one that is already in memory."""
    if isinstance(given, Timeline):
        return _of_timeline(given, ", ".join(given.inputs))
    if isinstance(given, Run):
        return _of_run(given, progress)
    name = fspath(given)
    if is_run(name):
        return replace(_of_run(read_run(name), progress), name=name)
    _refuse_report(name)
    timeline = read(name) if progress is None else read(name, progress=progress)
    return _of_timeline(timeline, name)


def _of_run(run: Run, progress: Progress | None) -> Side:
    missing: list[str] = []
    timeline = None
    if not run.profiles:
        missing.append(f"{run.path}: no profile: {run.why_no_profile}")
    else:
        try:
            timeline = read(run.path) if progress is None else read(run.path, progress=progress)
        except InputError as failure:
            missing.append(failure.what)
    score = score_of_steps(run)
    profiled = None if timeline is None else _times(timeline)
    times = profiled
    if score is not None:
        each_s = settled(score.each_s)
        times = RunSteps(each_s, score.source, Basis.MEASURED, on_host=_on_host(run))
    if times is not None:
        times, profiled = (
            it and replace(it, started=run.started.timestamp()) for it in (times, profiled)
        )
    untimed = f"{run.path}: no step time: neither the Run nor its profile has enough steps"
    if any(rank.steps_in_bursts for rank in run.ranks):
        untimed = f"{run.path}: no step time: {BURSTS}"
    if timeline is not None and not timeline.devices:
        missing.append(f"{run.path}: no device activity in its profile")
        timeline = None
    return Side(
        name=str(run.path),
        run=run,
        timeline=timeline,
        times=times,
        profiled=profiled,
        missing=tuple(missing),
        untimed=untimed if times is None else None,
        losses=read_losses(run),
    )


def _of_timeline(timeline: Timeline, name: str) -> Side:
    require_devices(timeline)
    times = _times(timeline)
    untimed = None if times else f"{name}: no whole step, so no step time"
    return Side(
        name=name, run=None, timeline=timeline, times=times, profiled=times, untimed=untimed
    )


def _times(timeline: Timeline) -> RunSteps | None:
    lengths = select(timeline).step_lengths_ms
    if not lengths or min(lengths) <= 0:
        return None
    source = "prediction" if timeline.basis is Basis.PREDICTED else PROFILE
    return RunSteps(
        tuple(ms / _MS_PER_S for ms in lengths),
        source,
        timeline.basis,
        on_host=all(device.kind == "cpu" for device in timeline.devices),
        range_s=timeline.predicted_range,
        target=_target(timeline),
    )


def _on_host(run: Run) -> bool:
    platforms = {process.platform for rank in run.ranks for process in rank.processes} - {None}
    return platforms == {"cpu"}


def _target(timeline: Timeline) -> str:
    """Return the machine that a prediction was made for."""
    if timeline.basis is not Basis.PREDICTED:
        return ""
    chips = (device.chip or device.kind for device in timeline.devices)
    hosts = [timeline.target] if timeline.target else [host.name for host in timeline.hosts]
    return ", ".join([*hosts, *chips])


def _refuse_report(name: str) -> None:
    """Reject Counterpoint's own reports, which cannot be compared."""
    path = Path(name)
    if path.suffix != ".json" or not path.is_file():
        return
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            head = file.read(_HEAD)
    except OSError:
        return
    for command in ("predict", "explain", "compare"):
        if f'"schema": {json.dumps(f"counterpoint.{command}/1")}' in head:
            advice = "name the profile or Run that was explained or compared"
            if command == "predict":
                advice = "counterpoint predict ... -o prediction"
            raise InputError(
                f"{name} is a report of `counterpoint {command}`, which contains no spans",
                why="the comparison needs the spans and the HLO of a Timeline",
                next=advice,
            )


def with_alike_programs(a: Side, b: Side) -> tuple[Side, Side]:
    """Return the sides with programs of one name as the step's, where steps run several.

    The heaviest program of each side may be another: the generator's here, the critic's there.
    """
    if a.timeline is None or b.timeline is None:
        return a, b
    names = [names_in_step(timeline) for timeline in (a.timeline, b.timeline)]
    common = [name for name in names[0] if name in names[1]]  # A's heaviest first
    if not common or max(map(len, names)) < 2:
        return a, b
    first, second = (
        replace(side, timeline=replace(timeline, step_program=programs[common[0]]))
        for side, timeline, programs in zip((a, b), (a.timeline, b.timeline), names, strict=True)
    )
    return first, second


def names_in_step(timeline: Timeline) -> dict[str, int]:
    """Return the main programs of a step by name, the heaviest first."""
    main = main_programs(programs_in_step(timeline))
    names: dict[str, int] = {}
    for program in main:
        names.setdefault(timeline.programs[program].name, program)
    return names


def cases_of(a: Side, b: Side) -> tuple[StepData, StepData] | Unknown:
    """Select typical steps of both; if one has no whole step, runs of it or whole profiles."""
    for name, side in (("A", a), ("B", b)):
        if side.timeline is None:
            return Unknown("; ".join(side.missing) or f"{name} has no profile")
    timelines = [side.timeline for side in (a, b) if side.timeline is not None]
    chosen = [select(timeline) for timeline in timelines]
    if any(selection.window is not WindowKind.STEP for selection in chosen):
        chosen = [select_runs(timeline) for timeline in timelines]
    if any(
        selection.window is WindowKind.PROFILE or not selection.occurrences for selection in chosen
    ):
        chosen = [_whole(timeline) for timeline in timelines]
    cases = [
        StepData(selection=selection, context=context_of(side.run))
        for selection, side in zip(chosen, (a, b), strict=True)
    ]
    return cases[0], cases[1]


def _whole(timeline: Timeline) -> Selection:
    """Select everything in a profile, as if it were one step."""
    windows = (
        timeline.spans.group_by("device")
        .agg(
            pl.col("start_ps").min(),
            (pl.col("start_ps") + pl.col("dur_ps")).max().alias("end_ps"),
        )
        .select(pl.lit(0, pl.Int32).alias("step"), "device", "start_ps", "end_ps")
        .sort("device")
    )
    lengths: Sequence[int] = (windows["end_ps"] - windows["start_ps"]).to_list()
    mean = sum(lengths) / max(len(lengths), 1) / PS_PER_MS
    return Selection(
        timeline=timeline,
        step=None,
        devices=tuple(windows["device"].to_list()),
        lengths_ms=(mean,),
        windows=windows,
        scale=1 / PS_PER_MS / max(len(lengths), 1),
        window=WindowKind.PROFILE,
    )
