"""The programs of a step: what runs in nearly every one, how often, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from counterpoint.core.frozen import frozen
from counterpoint.timeline import Timeline

_EVERY: Final = 0.9
"""Least share of steps in which a program runs that is part of them."""
_LITTLE: Final = 0.01
"""Share of the time of a step's programs below which one is only a helper of the others."""


@frozen
class ProgramInStep:
    """How often a step runs a program, and the milliseconds that this takes: mean over devices."""

    runs: int
    ms: float


def programs_in_step(timeline: Timeline) -> Mapping[int, ProgramInStep]:
    """Return the programs that are part of a step; none if no step was recorded whole."""
    whole = timeline.steps.filter("steady")
    if whole.is_empty():
        whole = timeline.steps.filter("whole")
    whole = whole.select("step", "device")
    if whole.is_empty():
        return {}
    took = pl.col("end_ps") - pl.col("start_ps")
    each = (
        timeline.runs.join(whole, on=["step", "device"], how="semi")
        .group_by("program", "step", "device")
        .agg(pl.len().alias("runs"), took.sum().alias("ps"))
    )
    usual = each.group_by("program").agg(
        share=pl.len() / len(whole),
        runs=pl.col("runs").mode().min(),
        ms=pl.col("ps").median() / 1e9,
    )
    return {
        program: ProgramInStep(runs=runs, ms=ms)
        for program, share, runs, ms in usual.sort("ms", descending=True).rows()
        if share >= _EVERY
    }


def main_programs(parts: Mapping[int, ProgramInStep]) -> tuple[int, ...]:
    """Return the programs of a step without those that take next to nothing of it."""
    least = _LITTLE * sum(part.ms for part in parts.values())
    return tuple(program for program, part in parts.items() if part.ms >= least)
