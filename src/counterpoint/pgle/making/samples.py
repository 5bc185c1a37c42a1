"""Samples: how long each execution of an instruction kept its device busy.

Kernels of one instruction add up within a run; concurrent ones on several streams count once. An
instruction in a loop runs several times in a run: its time there is divided by the trip count from
the program; if that is unknown, by the launches of the least launched kernel of the loop's body. A
collective is one execution over all devices of its replica group, and takes as long as the stay of
the last to arrive: the others wait before that. If the profile holds only some of them, the last of
these is the best estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.core import Unknown
from counterpoint.core.printable import counted_noun
from counterpoint.pgle.named_ops import named_ops
from counterpoint.timeline.hosts import meetings, stays, with_groups
from counterpoint.timeline.model import Lane, Timeline
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
    """Times of single executions, and the collectives whose waiting could not be separated."""

    frame: pl.DataFrame
    waiting: pl.DataFrame  # program, instruction


def samples(timeline: Timeline, ops: pl.DataFrame, runs: pl.DataFrame) -> Samples:
    """Return samples of every instruction in the given runs; `ops` as `named_ops` returns them."""
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
    """Return spans that did an instruction's work in a run that counts.

    TPUs show a collective from its start to its done; those two alone only issue it and wait.
    """
    collective = pl.col("lane") == Lane.COLLECTIVE
    windowed = (pl.col("async_window") & collective).any().over("program", "member")
    on_tpus = any(device.kind == "tpu" for device in timeline.devices)
    wanted = ops.filter(
        pl.col("instruction").is_not_null()
        & (pl.col("lane") != Lane.CONTROL)
        & (pl.col("async_window") == (windowed & collective & on_tpus))
    ).select("row", "program", "instruction", "member", "body", "times", "lane", "async_window")
    counted = runs.select("run", "index", own="program")
    return (
        timeline.spans.join(counted, on="run", maintain_order="left")
        .join(wanted, left_on="op", right_on="row", maintain_order="left")
        .filter(pl.col("program") == pl.col("own"))
        .select("device", "run", "index", "op", "start_ps", "dur_ps", *wanted.columns[1:])
    )


def _counted_times(spans: pl.DataFrame) -> pl.DataFrame:
    """Add `times`, how often the instruction ran in its run, and `count`, its op's launches."""
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
    """Return the busy time of each instruction in each run, per execution."""
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
    """Number the collective ops; those of one instruction get the same number."""
    collectives = ops.filter(
        (pl.col("lane") == Lane.COLLECTIVE) & pl.col("instruction").is_not_null()
    ).drop("collective")
    return collectives.with_columns(
        name=pl.col("member"), collective=pl.struct("program", "member").rank("dense")
    )


def _stays(timeline: Timeline, ops: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Return how long each device was in each execution of a collective, with its replica group.

    If an op is launched several times in one execution, these launches belong together.
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
    """Return collectives over all devices of a program that has more devices than the profile."""
    collectives: list[int] = []
    for op in _numbered(ops).unique("collective", keep="first").iter_rows(named=True):
        program = timeline.programs[int(op["program"])].hlo(op["host"])
        size = program.num_partitions * program.num_replicas if program is not None else 0
        if op["group_size"] == size > len(timeline.devices):
            collectives.append(op["collective"])
    return collectives


def _of_collectives(times: pl.DataFrame, ops: pl.DataFrame, ps: str) -> pl.DataFrame:
    names = _numbered(ops).select("collective", "program", "instruction", "member").unique()
    named = times.join(names, on="collective").rename({ps: "ps"})
    return named.select(*SAMPLES).cast({**SAMPLES})


_PS_PER_US: Final = 1e6


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """Device time of one run of a program, by instruction; `how` says where it was taken."""

    us: Mapping[str, float]
    how: str


def measured_times(timeline: Timeline, program: int) -> MeasuredTimes | Unknown:
    """Return the Timeline's times of the program of that index.

    Times weight a profile's gaps: one that lacks the three longest instructions lacks little by
    count but most by time. They are sums over all kernels of an instruction, loops included, per
    run of the program and device.
    """
    runs = _steady_runs(timeline, program)
    if runs.is_empty():
        return Unknown("the profile contains no run of the program on a device")
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
    return MeasuredTimes(us, f"mean of {counted_noun(count, 'run')} on {_devices(timeline, runs)}")


def _steady_runs(timeline: Timeline, program: int) -> pl.DataFrame:
    """Return rows of the program's runs: those in steady steps, if there are any."""
    runs = timeline.runs.with_row_index("run").filter(pl.col("program") == program)
    steady = timeline.steps.filter("steady")["step"].unique().to_list()
    inside = runs.filter(pl.col("step").is_in(steady))
    return (runs if inside.is_empty() else inside).select("run")


def _devices(timeline: Timeline, runs: pl.DataFrame) -> str:
    count = timeline.runs[runs["run"]]["device"].n_unique()
    return f"{count} device{'' if count == 1 else 's'}"


_ENOUGH: Final = 3
"""Minimum steady steps; with fewer, runs of steps with an unknown end count too."""

_COLUMNS: Final = ("run", "program", "device", "index")


@dataclass(frozen=True, slots=True, eq=False)
class ProfiledRuns:
    """Rows of the Timeline's runs that count, and the programs that have only a first run."""

    runs: pl.DataFrame  # run, program, device, index
    only_first: tuple[int, ...]


def profiled_runs(timeline: Timeline, *, keep_warmup: bool = False) -> ProfiledRuns:
    """Select the runs; each program keeps the best it has.

    Runs in steady steps and outside all steps count, except the first of each program, which pays
    for things that later runs find ready. A run left out on one device is left out on all, because
    a collective is measured on all of its devices at once.
    """
    runs = timeline.runs.with_row_index("run")
    if keep_warmup:
        return ProfiledRuns(runs.select(_COLUMNS), ())
    rated = _rated(timeline, runs)
    kept = rated.filter(
        pl.when("any_best")
        .then("best")
        .when("any_later")
        .then("later")
        .otherwise(pl.lit(value=True))
    )
    alone = rated.filter(~pl.col("any_later"))["program"].unique().sort().to_list()
    return ProfiledRuns(kept.select(_COLUMNS), tuple(alone))


def _rated(timeline: Timeline, runs: pl.DataFrame) -> pl.DataFrame:
    """Add `later` (not their program's first) and `best` (also only in steady steps) to runs."""
    steady = timeline.steps.filter("steady")
    if steady["step"].n_unique() < _ENOUGH:
        steady = timeline.steps.filter(pl.col("steady") | ~pl.col("whole"))
    steady = steady.select("step", "device", in_steady=True)
    is_first = pl.col("index") == pl.col("index").min().over("program", "device")
    settled = pl.col("in_steady").fill_null(value=False) | pl.col("step").is_null()
    return (
        runs.join(steady, on=["step", "device"], how="left", maintain_order="left")
        .with_columns(is_first=is_first, settled=settled)
        .with_columns(later=~pl.col("is_first").any().over("program", "index"))
        .with_columns(best=pl.col("later") & pl.col("settled").all().over("program", "index"))
        .with_columns(
            any_best=pl.col("best").any().over("program"),
            any_later=pl.col("later").any().over("program"),
        )
    )
