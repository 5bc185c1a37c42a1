"""A median step in numbers: its length, its parts, its phases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from counterpoint.diagnose.metrics.attribution import IDLE, PHASES
from counterpoint.diagnose.selection import Selection
from counterpoint.timeline.model import Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Step time over all steady steps; None where there is no step."""

    count: int
    median_ms: float | None
    p10_ms: float | None
    p90_ms: float | None
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Parts of a median step, mean over devices.

    Compute, exposed collective, exposed copy and idle add up to the step; hidden collective is the
    part of compute beside which a collective runs.
    """

    compute_ms: float
    collective_exposed_ms: float
    collective_hidden_ms: float
    copy_exposed_ms: float
    idle_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """The busy time of a median step by phase; they add up to the step without its idle time."""

    forward_ms: float
    backward_ms: float
    remat_ms: float
    optimizer_ms: float
    other_ms: float


def step_times(selection: Selection, how: str) -> StepTimes:
    """Median and spread of the step time."""
    lengths = selection.lengths_ms
    if not lengths:
        return StepTimes(count=0, median_ms=None, p10_ms=None, p90_ms=None, how=how)
    p10, p90 = np.percentile(lengths, [10, 90])
    return StepTimes(
        count=len(lengths),
        median_ms=selection.median_ms,
        p10_ms=float(p10),
        p90_ms=float(p90),
        how=how,
    )


def breakdown(selection: Selection, attributed: pl.DataFrame) -> Breakdown:
    """Parts of a median step from the attribution of its time."""

    def ms(of: pl.Expr) -> float:
        return float(attributed.filter(of)["ps"].sum()) * selection.scale

    state = pl.col("state")
    return Breakdown(
        compute_ms=ms(state == Lane.COMPUTE),
        collective_exposed_ms=ms(state == Lane.COLLECTIVE),
        collective_hidden_ms=ms(pl.col("hidden")),
        copy_exposed_ms=ms(state == Lane.COPY),
        idle_ms=ms(state == IDLE),
    )


def phases(selection: Selection, attributed: pl.DataFrame) -> Phases | None:
    """Phases of a median step; None when no op's phase is known."""
    if not selection.timeline.ops["phase"].is_not_null().any():
        return None
    summed = {
        phase: float(attributed.filter(pl.col("phase") == phase)["ps"].sum()) * selection.scale
        for phase in PHASES
    }
    return Phases(**{f"{phase}_ms": ms for phase, ms in summed.items()})
