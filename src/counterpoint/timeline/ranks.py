"""Who waits for whom: the devices that take part in one execution of a collective.

A device is taken for the participant whose number is its place among all devices, by host and
ordinal. That holds for a program on all its devices in their usual order; where the profile has
other devices, or where members of a supposed group were not in the collective at the same time (by
a clock that they share), the groups are not known, and neither are waits.
"""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from counterpoint.hlo import replica_groups
from counterpoint.timeline.model import Timeline

_TOGETHER: Final = 0.9
"""Share of executions in which all members must overlap for groups to be believed."""

_SCHEMA: Final = {"collective": pl.UInt32, "device": pl.UInt16, "group": pl.UInt32}


def with_groups(
    timeline: Timeline, ops: pl.DataFrame, stays: pl.DataFrame, occasion: str
) -> pl.DataFrame:
    """Stays with `group`, the number of the device's replica group; null where not known.

    `ops` has one row per op with the number of its `collective`. Stays belong together that have
    the same `occasion`, a column of steps or of runs, and the same `turn` in it.
    """
    rows = [
        (number, device, group)
        for number, members in _members(timeline, ops).items()
        for device, group in members.items()
    ]
    known = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    placed = stays.join(known, on=["collective", "device"], how="left")
    same_clock = ["collective", occasion, "turn", "group", "clock"]
    together = (
        placed.filter(pl.col("group").is_not_null())
        .with_columns(clock=pl.col("device").replace_strict(_clocks(timeline), default=None))
        .group_by(same_clock)
        .agg(
            (pl.col("start_ps").max() <= (pl.col("start_ps") + pl.col("dur_ps")).min()).alias("met")
        )
        .group_by("collective")
        .agg(pl.col("met").mean() >= _TOGETHER)
    )
    believed = placed.join(together, on="collective", how="left", maintain_order="left")
    return believed.with_columns(group=pl.when("met").then("group")).drop("met")


def _clocks(timeline: Timeline) -> dict[int, int]:
    """The clock of each device: hosts that were not aligned with the first keep their own."""
    own = [
        index if host.clock_offset_ps is None else 0 for index, host in enumerate(timeline.hosts)
    ]
    return {index: own[device.host] for index, device in enumerate(timeline.devices)}


def _members(timeline: Timeline, ops: pl.DataFrame) -> dict[int, dict[int, int]]:
    """Per collective, the group of each device."""
    devices = timeline.devices
    order = sorted(range(len(devices)), key=lambda i: (devices[i].host, devices[i].ordinal))
    found: dict[int, dict[int, int]] = {}
    for op in ops.unique("collective", keep="first", maintain_order=True).iter_rows(named=True):
        size = op["group_size"]
        if size is None or size == len(devices):
            # Everybody, or as far as anybody knows.
            found[op["collective"]] = dict.fromkeys(order, 0)
        else:
            found[op["collective"]] = _by_replica_groups(timeline, op, order)
    return found


def _by_replica_groups(timeline: Timeline, op: dict[str, Any], order: list[int]) -> dict[int, int]:
    program = timeline.programs[int(op["program"])].hlo() if op["program"] is not None else None
    instruction = program.instruction(op["name"]) if program is not None else None
    if program is None or instruction is None:
        return {}
    if program.num_partitions * program.num_replicas != len(order):
        return {}
    return {
        order[member]: number
        for number, group in enumerate(replica_groups(program, instruction))
        for member in group
        if member < len(order)
    }
