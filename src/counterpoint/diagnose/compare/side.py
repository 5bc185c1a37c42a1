"""A side of a comparison: what was named, read as far as it goes.

A Run tells its settings, its versions and the time of its undisturbed steps, and its profile where
the time goes. A profile or a stored prediction tells the time of its own steps. What is missing is
said in `missing`, and the rest is compared all the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Final, TypeAlias

import polars as pl

from counterpoint.core.basis import Basis, Unknown
from counterpoint.core.errors import InputError
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.compare.step_time import StepTimes
from counterpoint.diagnose.context import context_of
from counterpoint.diagnose.selection import PS_PER_MS, Selection, Window, select, select_runs
from counterpoint.runs import Run, is_run, read_run
from counterpoint.runs.read import read
from counterpoint.runs.score import score_of_steps
from counterpoint.simulate.reach_said import range_said
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.read import Progress

Input: TypeAlias = str | PathLike[str] | Run | Timeline

_MS_PER_S: Final = 1e3
_HEAD: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One run: its name as given, and what is known of it."""

    name: str
    run: Run | None
    timeline: Timeline | None
    times: StepTimes | None
    missing: tuple[str, ...] = ()

    @property
    def basis(self) -> Basis:
        """Of its time: a Run was measured."""
        return Basis.MEASURED if self.timeline is None else self.timeline.basis


def side_of(given: Input, progress: Progress | None = None) -> Side:
    """Read what was named: a Run, a profile, a stored Timeline; or take what was read already."""
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
    found = score_of_steps(run)
    if found is not None:
        times = StepTimes(found.each_s, found.source, Basis.MEASURED, on_host=_on_host(run))
    else:
        times = None if timeline is None else _times(timeline)
    if times is None:
        missing.append(f"{run.path}: no step time: neither it nor its profile tells enough steps")
    if timeline is not None and not timeline.devices:
        missing.append(f"{run.path}: no device did anything in its profile")
        timeline = None
    return Side(name=str(run.path), run=run, timeline=timeline, times=times, missing=tuple(missing))


def _of_timeline(timeline: Timeline, name: str) -> Side:
    if not timeline.devices:
        raise InputError(
            f"{name}: no device did anything in this profile",
            why="; ".join(timeline.notes) or "it holds host events only",
            next="capture again while steps run, e.g. from step 3 on, after compilation",
        )
    times = _times(timeline)
    missing = () if times else (f"{name}: no whole step was seen: it tells no step time",)
    return Side(name=name, run=None, timeline=timeline, times=times, missing=missing)


def _times(timeline: Timeline) -> StepTimes | None:
    lengths = select(timeline).step_lengths_ms
    if not lengths or min(lengths) <= 0:
        return None
    source = "prediction" if timeline.basis is Basis.PREDICTED else "profile"
    return StepTimes(
        tuple(ms / _MS_PER_S for ms in lengths),
        source,
        timeline.basis,
        on_host=all(it.kind == "cpu" for it in timeline.devices),
        range_s=range_said(timeline),
        target=_target(timeline),
    )


def _on_host(run: Run) -> bool:
    platforms = {it.platform for rank in run.ranks for it in rank.processes} - {None}
    return platforms == {"cpu"}


def _target(timeline: Timeline) -> str:
    """What a prediction was made for."""
    if timeline.basis is not Basis.PREDICTED:
        return ""
    chips = (it.chip or it.kind for it in timeline.devices)
    return ", ".join([*(it.name for it in timeline.hosts), *chips])


def _refuse_report(name: str) -> None:
    """What Counterpoint prints is not what it reads."""
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
            kept = "what was explained or compared"
            if command == "predict":
                kept = "counterpoint predict ... -o prediction"
            raise InputError(
                f"{name}: the report of `counterpoint {command}`, which holds no spans",
                why="ops are compared by the spans and the HLO of a Timeline",
                next=kept,
            )


def cases_of(a: Side, b: Side) -> tuple[Case, Case] | Unknown:
    """Typical steps of both; where one has no whole step runs of it, or else whole profiles."""
    for name, side in (("A", a), ("B", b)):
        if side.timeline is None:
            return Unknown("; ".join(side.missing) or f"{name} has no profile")
    timelines = [side.timeline for side in (a, b) if side.timeline is not None]
    chosen = [select(it) for it in timelines]
    if any(it.window is not Window.STEP for it in chosen):
        chosen = [select_runs(it) for it in timelines]
    if any(it.window is Window.PROFILE or not it.occurrences for it in chosen):
        chosen = [_whole(it) for it in timelines]
    made = [
        Case(selection=it, context=context_of(side.run))
        for it, side in zip(chosen, (a, b), strict=True)
    ]
    return made[0], made[1]


def _whole(timeline: Timeline) -> Selection:
    """All that a profile holds, as if it were one step."""
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
        window=Window.PROFILE,
    )
