"""Meetings: what one execution of a collective is, over the devices that take part in it.

Nobody can go on before the last has come: until then the others wait, and the stay of the last is
the transfer alone. Where hosts have no common clock, the shortest stay stands for that of the last.
"""

from __future__ import annotations

import polars as pl

from counterpoint.timeline.model import Timeline


def number_collectives(ops: pl.DataFrame) -> pl.DataFrame:
    """Collective ops, all parts of one instruction on all hosts under one number."""
    named = ops.with_columns(name=pl.coalesce("pair", "op", "name"))
    return named.with_columns(collective=pl.struct("program", "name").rank("dense"))


def stays(spans: pl.DataFrame, occasion: str) -> pl.DataFrame:
    """One row per execution on a device: its start-to-done window, or its parts joined.

    A GPU shows one kernel; a TPU core shows the start and the wait at the done, and sometimes the
    window between them on a line of its own. `spans` tell their `collective`, whether they are an
    `async_window`, and as which `turn` of their `occasion` (a column of steps or runs) they came.
    """
    windowed = pl.col("async_window").any().over("collective")
    end = pl.col("start_ps") + pl.col("dur_ps")
    return (
        spans.filter(pl.col("async_window") | ~windowed)
        .group_by("collective", "device", occasion, "turn")
        .agg(pl.col("start_ps").min(), (end.max() - pl.col("start_ps").min()).alias("dur_ps"))
    )


def meetings(timeline: Timeline, grouped: pl.DataFrame, occasion: str) -> pl.DataFrame:
    """One row per meeting of a replica group, of stays that `with_groups` has grouped.

    Columns: collective, occasion, turn, group, `fastest` (the stay without waiting, in ps), `wait`
    (of all devices, in ps), `last` (a device that stayed that long), `devices` (how many met).
    """
    last_comes = pl.col("start_ps").max()
    waits = (last_comes - pl.col("start_ps")).clip(0, pl.col("dur_ps"))
    order = [pl.col("start_ps"), -pl.col("dur_ps"), pl.col("device")]
    if not one_clock(timeline):
        waits, order = pl.col("dur_ps") - pl.col("dur_ps").min(), order[1:]
    return grouped.group_by("collective", occasion, "turn", "group").agg(
        pl.col("dur_ps").sort_by(order).last().alias("fastest"),
        waits.sum().alias("wait"),
        pl.col("device").sort_by(order).last().alias("last"),
        pl.len().alias("devices"),
    )


def one_clock(timeline: Timeline) -> bool:
    """Whether starts of different hosts can be compared."""
    return all(host.clock_offset_ps is not None for host in timeline.hosts[1:])
