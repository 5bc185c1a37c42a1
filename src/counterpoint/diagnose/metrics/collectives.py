"""What each collective costs: how much of it is exposed, how fast it is, and who waits for whom.

An instance is one execution over the devices of a replica group. Nobody can go on before the last
has come: until then the others wait, and the stay of the last is the transfer alone, which gives
the bandwidth. Where hosts have no common clock, the shortest stay stands for that of the last.

Sizes and bandwidths follow nccl-tests (PERFORMANCE.md): an all-gather's size is what all ranks end
up with, a reduce-scatter's what they start with; algorithm bandwidth = bytes / time, bus bandwidth
= algorithm bandwidth x the factor of the kind.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.intervals import Intervals, union
from counterpoint.diagnose.metrics.ranks import with_groups
from counterpoint.diagnose.metrics.slack import slack_per_op
from counterpoint.diagnose.selection import PS_PER_MS, Selection
from counterpoint.timeline.model import Lane

SCHEMA: Final = {
    "program": pl.UInt16,
    "op": pl.String,
    "kind": pl.String,
    "scope": pl.String,
    "source": pl.String,
    "phase": pl.String,
    "bytes": pl.Int64,
    "message_bytes": pl.Int64,  # what one rank gives or gets: the count of the NCCL call
    "group_size": pl.UInt32,
    "count": pl.Float64,  # executions per step and device
    "median_ms": pl.Float64,  # of one execution, start to end, waiting included
    "total_ms": pl.Float64,  # per median step and device
    "exposed_ms": pl.Float64,  # per median step and device
    "hidden_share": pl.Float64,
    "transfer_ms": pl.Float64,  # median of the fastest device of each instance
    "wait_ms": pl.Float64,  # per median step and device, for the last rank
    "slack_ms": pl.Float64,  # median time from the start to where the result is needed
    "algbw_gbps": pl.Float64,  # gigabytes per second
    "busbw_gbps": pl.Float64,
}


def collective_profile(selection: Selection, spans: pl.DataFrame) -> pl.DataFrame:
    """One row per collective instruction, the most exposed first."""
    ops = selection.timeline.ops.with_row_index("row").filter(pl.col("lane") == Lane.COLLECTIVE)
    found = _find(spans, ops)
    if not len(found):
        return pl.DataFrame(schema=SCHEMA)
    found = found.with_columns(exposed_ps=_exposed(selection, spans, found))
    transfers = _transfers(found)
    costs = found.group_by("collective").agg(
        (pl.col("exposed_ps").sum() * selection.scale).alias("exposed_ms"),
    )
    keys = ["program", "name"]
    table = (
        costs.join(_times(selection, transfers), on="collective")
        .join(_instances(selection, transfers, ops), on="collective", how="left")
        .join(_facts(ops), on="collective", how="left")
        .join(slack_per_op(selection, spans), on=keys, how="left", nulls_equal=True)
    )
    seconds = pl.col("transfer_ms") / 1e3
    return (
        table.with_columns(
            hidden_share=1 - pl.col("exposed_ms") / pl.col("total_ms"),
            algbw_gbps=pl.col("bytes") / seconds / 1e9,
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


def _numbered(ops: pl.DataFrame) -> pl.DataFrame:
    """Collective ops, all parts of one instruction on all hosts under one number."""
    named = ops.with_columns(name=pl.coalesce("pair", "op", "name"))
    return named.with_columns(collective=pl.struct("program", "name").rank("dense"))


def _find(spans: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Spans of collectives that start in a step, with their turn in it."""
    members = _numbered(ops).select("row", "collective", "async_window")
    return (
        spans.filter(pl.col("step").is_not_null() & pl.col("op").is_in(members["row"].to_list()))
        .select("op", "device", "step", "start_ps", "dur_ps")
        .join(members, left_on="op", right_on="row", maintain_order="left")
        .with_columns(turn=pl.int_range(pl.len(), dtype=pl.UInt32).over("device", "step", "op"))
    )


def _exposed(selection: Selection, spans: pl.DataFrame, found: pl.DataFrame) -> pl.Series:
    """Time of each collective span during which its device computes nothing."""
    computing = np.isin(
        spans["op"].to_numpy(),
        selection.timeline.ops.with_row_index("row")
        .filter(pl.col("lane") == Lane.COMPUTE)["row"]
        .to_numpy(),
    )
    device = spans["device"].to_numpy()
    start, duration = spans["start_ps"].to_numpy(), spans["dur_ps"].to_numpy()
    own = found["device"].to_numpy()
    begin = found["start_ps"].to_numpy()
    end = begin + found["dur_ps"].to_numpy()
    exposed: NDArray[np.int64] = np.zeros(len(found), np.int64)
    for one in np.unique(own):
        mine, busy = own == one, (device == one) & computing
        compute: Intervals = union(start[busy], start[busy] + duration[busy])
        exposed[mine] = (end - begin)[mine] - compute.covered(begin[mine], end[mine])
    return pl.Series("exposed_ps", exposed, pl.Int64)


def _transfers(found: pl.DataFrame) -> pl.DataFrame:
    """One row per execution on a device: its start-to-done window, or its parts joined.

    A GPU shows one kernel; a TPU core shows the start and the wait at the done, and sometimes the
    window between them on a line of its own.
    """
    windowed = pl.col("async_window").any().over("collective")
    return (
        found.filter(pl.col("async_window") | ~windowed)
        .group_by("collective", "device", "step", "turn")
        .agg(
            pl.col("start_ps").min(),
            ((pl.col("start_ps") + pl.col("dur_ps")).max() - pl.col("start_ps").min()).alias(
                "dur_ps"
            ),
        )
    )


def _times(selection: Selection, transfers: pl.DataFrame) -> pl.DataFrame:
    return transfers.group_by("collective").agg(
        (pl.len() / max(selection.occurrences, 1)).alias("count"),
        (pl.col("dur_ps").median() / PS_PER_MS).alias("median_ms"),
        (pl.col("dur_ps").sum() * selection.scale).alias("total_ms"),
    )


def _instances(selection: Selection, transfers: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Transfer time and waiting, by replica group; a device alone waits for nobody we see."""
    grouped = with_groups(selection.timeline, _numbered(ops), transfers)
    last_comes = pl.col("start_ps").max()
    # With a clock per host, starts can't be compared: then the shortest stay tells the transfer.
    waits = (last_comes - pl.col("start_ps")).clip(0, pl.col("dur_ps"))
    fastest = pl.col("dur_ps").sort_by("start_ps").last()
    if any(host.clock_offset_ps is None for host in selection.timeline.hosts[1:]):
        waits, fastest = pl.col("dur_ps") - pl.col("dur_ps").min(), pl.col("dur_ps").min()
    instances = grouped.group_by("collective", "step", "turn", "group").agg(
        fastest.alias("fastest"), waits.sum().alias("wait"), pl.len().alias("devices")
    )
    known = pl.col("group").is_not_null()
    return instances.group_by("collective").agg(
        (pl.col("fastest").filter(known).median() / PS_PER_MS).alias("transfer_ms"),
        pl.when((pl.col("devices").max() > 1) & known.all())
        .then(pl.col("wait").sum() * selection.scale)
        .alias("wait_ms"),
    )


def _facts(ops: pl.DataFrame) -> pl.DataFrame:
    facts = ("bytes", "group_size", "bus_factor", "scope", "source", "phase")
    return (
        _numbered(ops.rename({"collective": "kind"}))
        .sort("async_window", descending=True)
        .group_by("collective")
        .agg(
            pl.first("program", "name"),
            pl.first("kind"),
            *(pl.col(fact).drop_nulls().first() for fact in facts),
        )
    )
