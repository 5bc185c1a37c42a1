"""Programs of one operation or a few, which code outside of `jax.jit` launches one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.model import Lane

_FEW_OPS: Final = 5
"""Ops up to which a program is little: one operation of jax.numpy is one to three."""

_SHORT_PS: Final = 1_000_000_000
"""Length up to which a run is little: a longer one is worth a launch of its own."""

_TINY_PS: Final = 20_000_000
"""Length up to which a run takes no longer than its launch."""

_MANY_RUNS: Final = 10
"""Runs of little programs per step from which on they are many."""

_NEARLY_ALL: Final = 0.9
"""Share of a step's runs from which on tiny ones are all there is, however few they are."""


@dataclass(frozen=True, slots=True, eq=False)
class LittlePrograms:
    """Programs of few ops, and how many runs of them a typical step has; mean over devices.

    There are none unless a step runs many of them, or hardly anything else.
    """

    runs: dict[int, float]
    """Runs per step by program, the most frequent first."""

    @property
    def per_step(self) -> float:
        """Runs of all of them per step."""
        return sum(self.runs.values())


def little_programs(data: StepData) -> LittlePrograms:
    """Return the programs of few ops that a typical step runs."""
    works = data.timeline.ops["lane"] != Lane.CONTROL
    of_op = (
        data.timeline.ops.with_row_index("row")
        .filter(works & pl.col("program").is_not_null())
        .select(pl.col("row").alias("op"), "program")
    )
    spans = data.timed.group_by("op").agg(spans=pl.len()).join(of_op, on="op")
    steps = data.selection.windows.select("step", "device")
    runs = data.timeline.runs.join(steps, on=["step", "device"], how="semi")
    counted = (
        runs.group_by("program")
        .agg(runs=pl.len(), ps=(pl.col("end_ps") - pl.col("start_ps")).median())
        .join(
            spans.group_by("program").agg(pl.col("spans").sum()).cast({"program": pl.UInt16}),
            on="program",
            how="left",
        )
        .with_columns(
            little=(pl.col("spans").fill_null(0) <= _FEW_OPS * pl.col("runs"))
            & (pl.col("ps") <= _SHORT_PS)
        )
        .sort("runs", "program", descending=[True, False])
    )
    steps_of_device = max(len(steps), 1)
    little = counted.filter("little")
    programs = _per_step(little, steps_of_device)
    if programs.per_step >= _MANY_RUNS:
        return programs
    tiny = little.filter(pl.col("ps") <= _TINY_PS)
    ran, all_ran = (int(table["runs"].to_numpy().sum()) for table in (tiny, counted))
    nearly_all = ran >= _NEARLY_ALL * all_ran
    return _per_step(tiny if nearly_all else tiny.clear(), steps_of_device)


def _per_step(counted: pl.DataFrame, steps: int) -> LittlePrograms:
    return LittlePrograms(
        {program: runs / steps for program, runs in counted.select("program", "runs").rows()}
    )
