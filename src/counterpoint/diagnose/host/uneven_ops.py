"""What devices have more to do than others: where others wait, it may be why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.model import Lane

_OP = ("program", "op")

_MOSTLY = 0.5
"""Share of steps in which a device has most to do, from which on it is named."""


@dataclass(frozen=True, slots=True, eq=False)
class UnevenOp:
    """An op's row of `StepData.ops`, and its milliseconds in a typical step, as means over steps.

    `excess_ms` is how much longer it takes on the device on which it takes longest than on average.
    """

    row: dict[str, Any]
    least_ms: float
    most_ms: float
    excess_ms: float


@dataclass(frozen=True, slots=True)
class MoreWork:
    """What a device executes beyond others in a median step.

    `op` is the one that makes up most of it, with its executions by this device and, as a mean, by
    each of the others.
    """

    device: int | None  # None: another one in most steps
    ms: float  # more than the mean of all devices
    than_least_ms: float  # more than the device that executes least
    op: str
    count: float
    others_count: float


def most_uneven_op(data: StepData) -> UnevenOp | None:
    """Return the op of compute or copies with the largest excess; None with a single device."""
    devices = len(data.selection.devices)
    steps = data.selection.windows["step"].n_unique()
    if devices < 2 or not steps or not len(data.timed):
        return None
    names = _work(data)
    # Each host numbers its ops separately. Spans are many, ops few: names are joined last.
    in_step = (
        data.timed.group_by("op", "device", "step")
        .agg(ps=pl.col("self_ps").sum())
        .rename({"op": "row"})
        .join(names, on="row")
        .group_by(*_OP, "device", "step")
        .agg(pl.col("ps").sum())
        .group_by(*_OP, "step")
        .agg(
            most=pl.col("ps").max(),
            least=pl.when(pl.len() == devices).then(pl.col("ps").min()).otherwise(0),
            mean=pl.col("ps").sum() / devices,
        )
    )
    # A median step, and not the mean of those that are looked into.
    ms = data.selection.scale * data.selection.occurrences or 1 / PS_PER_MS
    candidates = (
        in_step.group_by(_OP)
        .agg(
            least=pl.col("least").sum() / steps * ms,
            most=pl.col("most").sum() / steps * ms,
            excess=(pl.col("most") - pl.col("mean")).sum() / steps * ms,
        )
        .join(data.ops, on=_OP, nulls_equal=True)
        .sort("excess", "op", descending=[True, False])
        .head(1)
    )
    for row in candidates.iter_rows(named=True):
        return UnevenOp(row, row["least"], row["most"], row["excess"])
    return None


def more_work(data: StepData) -> MoreWork | None:
    """Return what the device with most to do executes beyond others; None where all do the same.

    Executions are counted, and each op has its mean time on all devices: a device that the
    machine merely runs later or slower has no more to do.
    """
    devices = len(data.selection.devices)
    steps = data.selection.windows["step"].n_unique()
    if devices < 2 or not steps or not len(data.timed):
        return None
    executed = (
        data.timed.rename({"op": "row"})
        .join(_work(data), on="row")
        .group_by(*_OP, "device", "step")
        .agg(ps=pl.col("self_ps").sum(), count=pl.len())
        .with_columns(each=pl.col("ps").sum().over(*_OP) / pl.col("count").sum().over(*_OP))
        .with_columns(ps=pl.col("each") * pl.col("count"))
    )
    by_device = (
        executed.group_by("step", "device")
        .agg(pl.col("ps").sum())
        .sort("ps", "device", descending=[True, False])
    )
    most = by_device.group_by("step").agg(pl.col("device").first())
    in_steps = by_device.group_by("step").agg(
        mean=pl.col("ps").max() - pl.col("ps").sum() / devices,
        least=pl.col("ps").max()
        - pl.when(pl.len() == devices).then(pl.col("ps").min()).otherwise(0),
    )
    # A median step, and not the mean of those that are looked into.
    ms = data.selection.scale * data.selection.occurrences or 1 / PS_PER_MS
    # The op of which the device with most to do executes most beyond the others.
    mine = (
        executed.join(most.rename({"device": "busiest"}), on="step")
        .with_columns(mine=pl.col("device") == pl.col("busiest"))
        .group_by(*_OP)
        .agg(
            own=pl.col("count").filter("mine").sum() / steps,
            others=pl.col("count").filter(~pl.col("mine")).sum() / steps / (devices - 1),
            each=pl.col("each").first(),
        )
        .with_columns(more=(pl.col("own") - pl.col("others")) * pl.col("each"))
        .sort("more", "op", descending=[True, False])
        .row(0, named=True)
    )
    if mine["more"] <= 0:
        return None
    device, times = next(most["device"].value_counts(sort=True).iter_rows())
    return MoreWork(
        device=int(device) if times > _MOSTLY * steps else None,
        ms=float(in_steps["mean"].sum()) / steps * ms,
        than_least_ms=float(in_steps["least"].sum()) / steps * ms,
        op=str(mine["op"]),
        count=float(mine["own"]),
        others_count=float(mine["others"]),
    )


def _work(data: StepData) -> pl.DataFrame:
    """Return the ops that compute or copy: row, program, op."""
    works = pl.col("lane").is_in([Lane.COMPUTE, Lane.COPY]) & ~pl.col("async_window")
    return (
        data.timeline.ops.with_row_index("row")
        .filter(works)
        .select("row", "program", op=pl.coalesce("op", "name"))
    )
