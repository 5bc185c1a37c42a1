"""The cost of each collective: exposed time, bandwidth, and waiting for late devices.

`counterpoint.timeline.hosts.alignment` separates waiting from transfer; the transfer gives the
bandwidth. Total, exposed and waiting time and the bandwidths are means over the same executions, so
that exposed and hidden time add up to the total; `median_ms`, `transfer_ms` and `slack_ms` are
medians of one execution.

Sizes and bandwidths follow nccl-tests (PERFORMANCE.md): an all-gather's size is what all ranks end
up with, a reduce-scatter's what they start with; algorithm bandwidth = bytes / time, bus bandwidth
= algorithm bandwidth x the factor of the kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core import Basis
from counterpoint.core.columns import Intervals, union, values_of
from counterpoint.diagnose.collectives.slack import slack_per_op
from counterpoint.diagnose.selection import PS_PER_MS, Selection, device_slices
from counterpoint.diagnose.step_data import StepData, everywhere
from counterpoint.timeline.hosts import meetings, number_collectives, stays, with_groups
from counterpoint.timeline.model import Lane, Timeline

SCHEMA: Final = {
    "program": pl.UInt16,
    "op": pl.String,
    "kind": pl.String,
    "scope": pl.String,
    "source": pl.String,
    "phase": pl.String,
    "bytes": pl.Int64,
    "message_bytes": pl.Int64,  # what one rank sends or receives: the count of the NCCL call
    "group_size": pl.UInt32,
    "count": pl.Float64,  # executions per step and device
    "median_ms": pl.Float64,  # of one execution, start to end, including waiting
    "total_ms": pl.Float64,  # per median step and device
    "exposed_ms": pl.Float64,  # per median step and device
    "hidden_share": pl.Float64,
    "transfer_ms": pl.Float64,  # median of the fastest device of each instance
    "mean_transfer_ms": pl.Float64,  # mean of the same, used for the bandwidths
    "wait_ms": pl.Float64,  # for the last rank, per median step and device
    "slack_ms": pl.Float64,  # median time from the start until the result is needed
    "algbw_gbps": pl.Float64,  # gigabytes per second, over all transfers
    "busbw_gbps": pl.Float64,
}


def collective_profile(data: StepData) -> pl.DataFrame:
    """Return one row per collective instruction, most exposed first."""
    selection = data.selection
    executions = data.cached(exposed_executions)
    if not len(executions):
        return pl.DataFrame(schema=SCHEMA)
    ops = selection.timeline.ops.with_row_index("row").filter(pl.col("lane") == Lane.COLLECTIVE)
    transfers = stays(executions, "step")
    costs = executions.group_by("collective").agg(
        (pl.col("exposed_ps").sum() * selection.scale).alias("exposed_ms"),
    )
    keys = ["program", "name"]
    table = (
        costs.join(_times(selection, transfers), on="collective")
        .join(_instances(data, ops), on="collective", how="left")
        .join(_facts(ops), on="collective", how="left")
        .join(slack_per_op(data), on=keys, how="left", nulls_equal=True)
    )
    return (
        table.with_columns(
            hidden_share=1 - pl.col("exposed_ms") / pl.col("total_ms"),
            algbw_gbps=pl.col("bytes") / pl.col("mean_transfer_ms") / 1e6,
        )
        .with_columns(
            hidden_share=pl.col("hidden_share").clip(0, 1),
            message_bytes=pl.when(pl.col("kind").is_in(["all-gather", "reduce-scatter"]))
            .then(pl.col("bytes") // pl.col("group_size"))
            .otherwise(pl.col("bytes")),
            busbw_gbps=pl.col("algbw_gbps") * pl.col("bus_factor"),
        )
        .rename({"name": "op"})
        .select(*SCHEMA)
        .sort("exposed_ms", "total_ms", "op", descending=[True, True, False])
    )


def exposed_executions(data: StepData) -> pl.DataFrame:
    """Return all executions of collectives in the typical steps, with `exposed_ps`.

    If a collective has a span for its whole duration, the spans of its parts are not counted again.
    """
    ops = data.timeline.ops.with_row_index("row").filter(pl.col("lane") == Lane.COLLECTIVE)
    windowed = pl.col("async_window").any().over("collective")
    executions = executions_of(data.spans, ops).filter(pl.col("async_window") | ~windowed)
    if not len(executions):
        return executions
    return executions.with_columns(exposed_ps=exposed_parts(data.selection, data.spans, executions))


def executions_of(spans: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Return the spans of collectives that start in a step, with their turn in it."""
    members = number_collectives(ops).select("row", "collective", "async_window")
    return (
        spans.filter(pl.col("step").is_not_null() & pl.col("op").is_in(members["row"].to_list()))
        .select("op", "device", "step", "start_ps", "dur_ps")
        .join(members, left_on="op", right_on="row", maintain_order="left")
        .with_columns(turn=pl.int_range(pl.len(), dtype=pl.UInt32).over("device", "step", "op"))
    )


def exposed_parts(selection: Selection, spans: pl.DataFrame, executions: pl.DataFrame) -> pl.Series:
    """Return the time of each collective span during which its device computes nothing."""
    lanes = selection.timeline.ops["lane"].eq_missing(Lane.COMPUTE).to_numpy()
    computing = lanes[spans["op"].to_numpy()]
    start, duration = spans["start_ps"].to_numpy(), spans["dur_ps"].to_numpy()
    begin = executions["start_ps"].to_numpy()
    end = begin + executions["dur_ps"].to_numpy()
    exposed: NDArray[np.int64] = end - begin
    rows = device_slices(spans)
    for device, own in device_slices(executions).items():
        busy = rows[device].start + np.flatnonzero(computing[rows[device]])
        compute: Intervals = union(start[busy], start[busy] + duration[busy])
        exposed[own] -= compute.covered(begin[own], end[own])
    return pl.Series("exposed_ps", exposed, pl.Int64)


def _times(selection: Selection, transfers: pl.DataFrame) -> pl.DataFrame:
    return transfers.group_by("collective").agg(
        (pl.len() / max(selection.occurrences, 1)).alias("count"),
        (pl.col("dur_ps").median() / PS_PER_MS).alias("median_ms"),
        (pl.col("dur_ps").sum() * selection.scale).alias("total_ms"),
    )


def _instances(data: StepData, ops: pl.DataFrame) -> pl.DataFrame:
    """Return transfer time and waiting by replica group; with one device, waiting is not known.

    The chosen devices also wait for those that were not chosen.
    """
    selection = data.selection
    transfers = stays(data.cached(everywhere).cached(exposed_executions), "step")
    numbered = number_collectives(ops)
    grouped = with_groups(selection.timeline, numbered, transfers, "step")
    instances = meetings(selection.timeline, grouped, "step", selection.devices)
    # A prediction represents all devices by one, and nobody waits in it.
    known = pl.col("group").is_not_null() | (selection.timeline.basis is Basis.PREDICTED)
    return instances.group_by("collective").agg(
        (pl.col("fastest").filter(known).median() / PS_PER_MS).alias("transfer_ms"),
        (pl.col("fastest").filter(known).mean() / PS_PER_MS).alias("mean_transfer_ms"),
        pl.when((pl.col("devices").max() > 1) & known.all())
        .then(pl.col("wait").sum() * selection.scale)
        .alias("wait_ms"),
    )


def _facts(ops: pl.DataFrame) -> pl.DataFrame:
    facts = ("bytes", "group_size", "bus_factor", "scope", "source", "phase")
    return (
        number_collectives(ops.rename({"collective": "kind"}))
        .sort("async_window", descending=True)
        .group_by("collective")
        .agg(
            pl.first("program", "name"),
            pl.first("kind"),
            *(pl.col(fact).drop_nulls().first() for fact in facts),
        )
    )


def shares_beside(timeline: Timeline, spans: pl.DataFrame, ops: Sequence[int]) -> dict[int, float]:
    """Return the share of ops overlapped by collectives, by row of the Timeline's ops.

    All spans of an op count; `spans` are sorted by device.
    """
    lanes = timeline.ops["lane"]
    talking = (lanes == Lane.COLLECTIVE).fill_null(value=False).to_numpy()
    requested = np.zeros(len(lanes), bool)
    requested[list(ops)] = True
    device, op = spans["device"].to_numpy(), spans["op"].to_numpy()
    start, length = spans["start_ps"].to_numpy(), spans["dur_ps"].to_numpy()
    beside = np.zeros(len(lanes), np.int64)
    whole = np.zeros(len(lanes), np.int64)
    for device_index in values_of(device):
        own = slice(*np.searchsorted(device, [device_index, device_index + 1]))
        own_ops = op[own]
        begins, ends = start[own], start[own] + length[own]
        busy = union(begins[talking[own_ops]], ends[talking[own_ops]])
        counted = requested[own_ops]
        np.add.at(beside, own_ops[counted], busy.covered(begins[counted], ends[counted]))
        np.add.at(whole, own_ops[counted], length[own][counted])
    return {row: float(beside[row] / whole[row]) if whole[row] else 0.0 for row in ops}
