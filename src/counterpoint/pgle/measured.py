"""How long each instruction of a program ran on the devices, as weights for a profile's gaps.

A profile that lacks the three longest instructions lacks little by count and most by time. Times
are sums over all kernels of an instruction, per run of the program and device, loops included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.core.basis import Unknown
from counterpoint.pgle.names import named_ops
from counterpoint.timeline.model import Lane, Timeline

_PS_PER_US: Final = 1e6


@dataclass(frozen=True, slots=True)
class Measured:
    """Device time of one run of a program, by instruction; `how` tells where it was taken."""

    us: Mapping[str, float]
    how: str


def measured_times(timeline: Timeline, program: int) -> Measured | Unknown:
    """What the Timeline tells of the program of that index."""
    runs = _steady_runs(timeline, program)
    if runs.is_empty():
        return Unknown("the profile holds no run of the program on a device")
    ops = named_ops(timeline).select("row", "instruction", "program", "lane", "async_window")
    per_name = (
        timeline.spans.lazy()
        .join(runs.lazy(), on="run")
        .join(ops.lazy(), left_on="op", right_on="row")
        .filter(
            pl.col("program") == program,
            pl.col("lane") != Lane.CONTROL,
            ~pl.col("async_window").fill_null(value=False),
            pl.col("instruction").is_not_null(),
        )
        .group_by("instruction")
        .agg(pl.col("dur_ps").sum())
        .sort("instruction")
        .collect()
    )
    if per_name.is_empty():
        return Unknown("the profile names no instructions of the program")
    count = len(runs)
    us = {str(name): round(ps / count / _PS_PER_US, 6) for name, ps in per_name.iter_rows()}
    return Measured(us, f"mean of {count:,} runs on {_devices(timeline, runs)}")


def _steady_runs(timeline: Timeline, program: int) -> pl.DataFrame:
    """Rows of the program's runs: those in steady steps, where the profile has such."""
    runs = timeline.runs.with_row_index("run").filter(pl.col("program") == program)
    steady = timeline.steps.filter("steady")["step"].unique().to_list()
    inside = runs.filter(pl.col("step").is_in(steady))
    return (runs if inside.is_empty() else inside).select("run")


def _devices(timeline: Timeline, runs: pl.DataFrame) -> str:
    count = timeline.runs[runs["run"]]["device"].n_unique()
    return f"{count} device{'' if count == 1 else 's'}"
