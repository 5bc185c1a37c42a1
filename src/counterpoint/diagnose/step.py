"""The figures of a median step: its time, its parts and its phases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Final

import numpy as np
import polars as pl

from counterpoint.diagnose.attribution import IDLE, PHASES, STATES
from counterpoint.diagnose.selection import Selection, WindowKind, device_slices
from counterpoint.diagnose.step_programs import ProgramInStep, main_programs
from counterpoint.timeline.model import Lane

_SPREAD: Final = 10
"""Minimum number of steps to report percentiles; below it, the shortest and longest step."""

_Sum = tuple[str, bool, int]  # the state, whether a collective is hidden, picoseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Step time over all steady steps, from start to start; None if no whole step was seen.

    `p10_ms` and `p90_ms` are None below ten steps. `execution_ms` is the part in which the step's
    program runs, from its first op to its last; of a step of several programs, or of several runs,
    the sum of all. All other figures of a step describe what `window`
    names, which takes `window_ms`: a run of the program, or the whole profile, if no whole step
    was seen.
    """

    count: int
    median_ms: float | None
    mean_ms: float | None
    min_ms: float | None
    max_ms: float | None
    p10_ms: float | None
    p90_ms: float | None
    execution_ms: float | None
    window: WindowKind
    window_ms: float | None
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Parts of a median step, mean over devices.

    Compute, exposed collective, exposed copy and idle add up to the step; hidden collective is the
    part of compute that a collective overlaps. A device that waits for Python which the program
    calls is idle.
    """

    compute_ms: float
    collective_exposed_ms: float
    collective_hidden_ms: float
    copy_exposed_ms: float
    idle_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Busy time of a median step by phase; the phases add up to the step without idle time."""

    forward_ms: float
    backward_ms: float
    remat_ms: float
    optimizer_ms: float
    other_ms: float


def step_times(selection: Selection, how: str, parts: Mapping[int, ProgramInStep]) -> StepTimes:
    """Return median and spread of the step time, and how long its programs run."""
    lengths = selection.step_lengths_ms
    p10, p90 = np.percentile(lengths, [10, 90]) if len(lengths) >= _SPREAD else (None, None)
    return StepTimes(
        count=len(lengths),
        median_ms=selection.median_ms if lengths else None,
        mean_ms=mean(lengths) if lengths else None,
        min_ms=min(lengths, default=None),
        max_ms=max(lengths, default=None),
        p10_ms=None if p10 is None else float(p10),
        p90_ms=None if p90 is None else float(p90),
        execution_ms=_execution_ms(selection, parts),
        window=selection.window,
        window_ms=selection.shown_ms if selection.lengths_ms else None,
        how=how,
    )


def _execution_ms(selection: Selection, parts: Mapping[int, ProgramInStep]) -> float | None:
    timeline = selection.timeline
    if timeline.step_program is None or selection.window is WindowKind.PROFILE:
        return None
    if selection.window is WindowKind.RUN:
        return selection.shown_ms
    own = {
        timeline.step_program,
        *(it for main in main_programs(parts) for it in parts[main].builds),
    }
    runs = timeline.runs.filter(pl.col("program").is_in(own)).join(
        selection.windows, on=["step", "device"], how="semi"
    )
    total = int((runs["end_ps"] - runs["start_ps"]).sum())
    return total * selection.scale if len(runs) else None


def breakdown(selection: Selection, attributed: pl.DataFrame) -> Breakdown:
    """Return the parts of a median step from the attribution of its time."""
    return _parts(
        (state for of_device in _sums(attributed).values() for state in of_device), selection.scale
    )


def device_breakdowns(selection: Selection, attributed: pl.DataFrame) -> dict[int, Breakdown]:
    """Return the breakdown per device, on a common scale: their mean is the overall one."""
    windows = device_slices(selection.windows)
    return {
        device: _parts(
            sums,
            selection.scale
            * selection.occurrences
            / (windows[device].stop - windows[device].start),
        )
        for device, sums in _sums(attributed).items()
    }


def _sums(attributed: pl.DataFrame) -> dict[int, list[_Sum]]:
    """Return the time of each device in each state."""
    keys = ["device", "state", "hidden"]
    sums: dict[int, list[_Sum]] = {}
    summed = attributed.group_by(keys, maintain_order=True).agg(pl.col("ps").sum())
    for device, state, hidden, ps in summed.rows():
        sums.setdefault(device, []).append((state, hidden, ps))
    return sums


def _parts(sums: Iterable[_Sum], scale: float) -> Breakdown:
    ps = dict.fromkeys((*map(str, STATES), IDLE), 0)
    beside = 0
    for state, hidden, of_state in sums:
        ps[state] += of_state
        beside += of_state if hidden else 0
    return Breakdown(
        compute_ms=ps[Lane.COMPUTE] * scale,
        collective_exposed_ms=ps[Lane.COLLECTIVE] * scale,
        collective_hidden_ms=beside * scale,
        copy_exposed_ms=ps[Lane.COPY] * scale,
        idle_ms=ps[IDLE] * scale,
    )


_TOLD: Final = tuple(phase for phase in PHASES if phase != "other")


def phases(selection: Selection, attributed: pl.DataFrame) -> Phases | None:
    """Return the phases of a median step; None if no op's phase is known.

    Without differentiated work, nothing tells a forward pass from an update or from anything else.
    """
    if not selection.timeline.ops["phase"].is_in(_TOLD).any():
        return None
    summed = {
        phase: float(attributed.filter(pl.col("phase") == phase)["ps"].sum()) * selection.scale
        for phase in PHASES
    }
    return Phases(**{f"{phase}_ms": ms for phase, ms in summed.items()})
