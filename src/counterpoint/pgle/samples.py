"""One number per execution of an instruction: how long it kept its device busy.

Kernels of one instruction add up within a run, side by side on several streams they count once.
An instruction in a loop runs several times in a run: its time there is divided by the trip count
that the program tells; where it tells none, by how often the least launched kernel of the loop's
body was launched. A collective is one execution over all devices of its replica group, and takes
as long as the last to come stays: the others wait before that. Where the profile holds some of them
only, the last of these comes nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.timeline.meetings import meetings, stays
from counterpoint.timeline.model import Lane, Timeline
from counterpoint.timeline.ranks import with_groups
from counterpoint.timeline.recording import Schema

SAMPLES: Final[Schema] = {
    "program": pl.UInt16,
    "instruction": pl.String,
    "member": pl.String,
    "host": pl.UInt16,
    "ps": pl.Float64,
}

_PLACE: Final = ("program", "member", "device", "run")


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Times of single executions, and the collectives whose waiting could not be told apart."""

    frame: pl.DataFrame
    waiting: pl.DataFrame  # program, instruction


def samples(timeline: Timeline, ops: pl.DataFrame, runs: pl.DataFrame) -> Samples:
    """Samples of every instruction in the given runs; `ops` as `named_ops` gives them."""
    spans = _counted_times(_executed(timeline, ops, runs))
    hosts = pl.DataFrame(
        {
            "device": range(len(timeline.devices)),
            "host": [device.host for device in timeline.devices],
        },
        schema={"device": pl.UInt16, "host": pl.UInt16},
    )
    collective = pl.col("lane") == Lane.COLLECTIVE
    work = _work(spans.filter(~collective)).join(hosts, on="device")
    grouped = _stays(timeline, ops, spans.filter(collective))
    unknown = grouped.filter(pl.col("group").is_null())
    parted = pl.col("collective").is_in(_of_everybody(timeline, ops))
    together = pl.concat(
        [
            grouped.filter(pl.col("group").is_not_null()),
            unknown.filter(parted).with_columns(group=0),
        ],
        how="vertical_relaxed",
    )
    alone = unknown.filter(~parted).join(hosts, on="device")
    met = meetings(timeline, together, "index").join(hosts, left_on="last", right_on="device")
    frame = pl.concat(
        [
            work.select(*SAMPLES).cast({**SAMPLES}),
            _of_collectives(alone, ops, "dur_ps"),
            _of_collectives(met, ops, "fastest"),
        ]
    )
    unsure = unknown.join(hosts, on="device")
    waiting = _of_collectives(unsure, ops, "dur_ps").select("program", "instruction").unique()
    return Samples(frame, waiting)


def _executed(timeline: Timeline, ops: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Spans that did an instruction's work in a run that counts."""
    wanted = ops.filter(
        pl.col("instruction").is_not_null()
        & (pl.col("lane") != Lane.CONTROL)
        & ~pl.col("async_window")
    ).select("row", "program", "instruction", "member", "body", "times", "lane", "async_window")
    counted = runs.select("run", "index", own="program")
    return (
        timeline.spans.join(counted, on="run", maintain_order="left")
        .join(wanted, left_on="op", right_on="row", maintain_order="left")
        .filter(pl.col("program") == pl.col("own"))
        .select("device", "run", "index", "op", "start_ps", "dur_ps", *wanted.columns[1:])
    )


def _counted_times(spans: pl.DataFrame) -> pl.DataFrame:
    """Spans with `times`, how often their instruction ran in their run, and `count` of their op."""
    count = pl.len().over("device", "run", "op")
    of_body = pl.col("count").min().over("program", "body", "device", "run")
    own = pl.col("count").min().over(_PLACE)
    return spans.with_columns(count=count).with_columns(
        times=pl.when(pl.col("times").is_not_null())
        .then(pl.min_horizontal("times", own))
        .when(pl.col("body").is_not_null())
        .then(of_body)
        .otherwise(own)
        .clip(lower_bound=1)
    )


def _work(spans: pl.DataFrame) -> pl.DataFrame:
    """Busy time of each instruction in each run, per execution."""
    end = pl.col("start_ps") + pl.col("dur_ps")
    reached = end.cum_max().shift(1).over(_PLACE)  # null before the first: skipped by the maximum
    fresh = (end - pl.max_horizontal("start_ps", reached)).clip(lower_bound=0)
    return (
        spans.sort("start_ps")
        .with_columns(fresh=fresh)
        .group_by(_PLACE)
        .agg(
            pl.col("instruction").first(),
            pl.col("fresh").sum() / pl.col("times").first().cast(pl.Float64),
        )
        .rename({"fresh": "ps"})
    )


def _numbered(ops: pl.DataFrame) -> pl.DataFrame:
    """Collective ops, those of one instruction under one number."""
    found = ops.filter(
        (pl.col("lane") == Lane.COLLECTIVE) & pl.col("instruction").is_not_null()
    ).drop("collective")
    return found.with_columns(
        name=pl.col("member"), collective=pl.struct("program", "member").rank("dense")
    )


def _stays(timeline: Timeline, ops: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """How long each device was in each execution of a collective, with its replica group.

    Of an op launched several times in one execution, the launches of one belong together.
    """
    numbered = _numbered(ops)
    at = pl.int_range(pl.len(), dtype=pl.UInt64).over("device", "run", "op")
    turned = (
        spans.sort("device", "start_ps")
        .with_columns(turn=(at * pl.col("times") // pl.col("count")).cast(pl.UInt32))
        .join(numbered.select("row", "collective"), left_on="op", right_on="row")
    )
    return with_groups(timeline, numbered, stays(turned, "index"), "index")


def _of_everybody(timeline: Timeline, ops: pl.DataFrame) -> list[int]:
    """Collectives over all devices of a program, more than the profile holds: one group."""
    found: list[int] = []
    for op in _numbered(ops).unique("collective", keep="first").iter_rows(named=True):
        program = timeline.programs[int(op["program"])].hlo(op["host"])
        size = program.num_partitions * program.num_replicas if program is not None else 0
        if op["group_size"] == size > len(timeline.devices):
            found.append(op["collective"])
    return found


def _of_collectives(times: pl.DataFrame, ops: pl.DataFrame, ps: str) -> pl.DataFrame:
    names = _numbered(ops).select("collective", "program", "instruction", "member").unique()
    named = times.join(names, on="collective").rename({ps: "ps"})
    return named.select(*SAMPLES).cast({**SAMPLES})
