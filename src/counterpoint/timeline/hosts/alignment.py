"""Aligns the clocks of several hosts on collectives that all ranks take part in."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from counterpoint.core.frozen import frozen
from counterpoint.hlo.collectives import device_groups
from counterpoint.timeline.model import Lane, Timeline

_BY_HOST: Final = r"^(send|recv)(-done)?$"


@frozen
class Offset:
    """The offset to subtract from a host's times, and its collectives' median deviation from it."""

    ps: int
    spread_ps: int
    collectives: int


def find_offsets(
    spans: pl.DataFrame, ops: pl.DataFrame, runs: pl.DataFrame, hosts: list[int]
) -> dict[int, Offset]:
    """Return the offset of each host from the first; hosts with nothing in common are left out.

    `hosts` gives the host of each device. Spans need the run they belong to: a collective
    corresponds to the one on another host with the same name, run and occurrence number.

    A collective ends on all its ranks at nearly the same moment, whichever came last. So the offset
    is the median difference between the ends of collectives in which every device takes part;
    deviations from that median show how certain it is.
    """
    found = (
        shared_ends(spans, ops, runs, hosts)
        .group_by("host")
        .agg(
            pl.col("difference").median().alias("ps"),
            (pl.col("difference") - pl.col("difference").median()).abs().median().alias("spread"),
            pl.len().alias("collectives"),
        )
    )
    return {
        host: Offset(round(ps), round(spread), count)
        for host, ps, spread, count in found.select("host", "ps", "spread", "collectives").rows()
    }


def shared_ends(
    spans: pl.DataFrame, ops: pl.DataFrame, runs: pl.DataFrame, hosts: list[int]
) -> pl.DataFrame:
    """Return the ends of shared collectives per host.

    Each row has `end_ps` and its `difference` from the first host's.
    """
    ends = _ends(spans, ops, runs, hosts)
    first = ends.filter(pl.col("host") == hosts[0]).drop("host")
    keys = ["program", "op", "index", "turn"]
    return ends.join(first, on=keys, suffix="_first").with_columns(
        difference=pl.col("end_ps") - pl.col("end_ps_first")
    )


def step_ends(
    spans: pl.DataFrame, ops: pl.DataFrame, runs: pl.DataFrame, hosts: list[int], program: int
) -> pl.DataFrame:
    """Return when one collective, the same in every run of a program, ended on each host.

    Columns host, index, end_ps; empty if no collective spans all devices.
    """
    ends = _ends(spans, ops, runs, hosts).filter(pl.col("program") == program)
    most = (
        ends.group_by("op", "turn").len().sort("len", "op", "turn", descending=[True, False, True])
    )
    return ends.join(most.head(1), on=["op", "turn"], how="semi").select("host", "index", "end_ps")


def _ends(
    spans: pl.DataFrame, ops: pl.DataFrame, runs: pl.DataFrame, hosts: list[int]
) -> pl.DataFrame:
    # With some hosts missing, a collective over all ranks has more members than there are devices.
    largest = ops.filter(pl.col("lane") == Lane.COLLECTIVE)["group_size"].max()
    everybody = max(len(hosts), largest) if isinstance(largest, int) else len(hosts)
    everywhere = (pl.col("group_size") == everybody) | pl.col("group_size").is_null()
    # Parts of a transfer between slices end whenever their own host is ready for them.
    by_host = pl.col("opcode").fill_null("").str.contains(_BY_HOST) & ~pl.col("collective").is_in(
        ["send", "recv"]
    )
    wanted = ops.with_row_index("row").filter(
        (pl.col("lane") == Lane.COLLECTIVE) & ~pl.col("async_window") & everywhere & ~by_host
    )
    members = spans.filter(pl.col("run").is_not_null()).join(
        wanted.select("row", "program", name="op"), left_on="op", right_on="row"
    )
    numbered = members.join(runs.with_row_index("run").select("run", "index"), on="run").sort(
        "start_ps"
    )
    return (
        numbered.with_columns(
            turn=pl.int_range(pl.len()).over("device", "run", "program", "name"),
            host=pl.col("device").replace_strict(dict(enumerate(hosts)), return_dtype=pl.Int64),
            end_ps=pl.col("start_ps") + pl.col("dur_ps"),
        )
        .drop("op")
        .rename({"name": "op"})
        .group_by("host", "program", "op", "index", "turn")
        .agg(pl.col("end_ps").max())
    )


def number_collectives(ops: pl.DataFrame) -> pl.DataFrame:
    """Number the collective ops: all parts of one instruction on all hosts get the same number."""
    named = ops.with_columns(name=pl.coalesce("pair", "op", "name"))
    return named.with_columns(collective=pl.struct("program", "name").rank("dense"))


def stays(spans: pl.DataFrame, occasion: str) -> pl.DataFrame:
    """Return one row per execution on a device: its start-to-done window, or its joined parts.

    A GPU shows one kernel; a TPU core shows the start and the wait at the done, and sometimes the
    window between them on a separate line. `spans` has the columns `collective`, `async_window`,
    `occasion` (a column of steps or runs) and `turn` (the occurrence number in it).
    """
    windowed = pl.col("async_window").any().over("collective")
    end = pl.col("start_ps") + pl.col("dur_ps")
    return (
        spans.filter(pl.col("async_window") | ~windowed)
        .group_by("collective", "device", occasion, "turn")
        .agg(pl.col("start_ps").min(), (end.max() - pl.col("start_ps").min()).alias("dur_ps"))
    )


def meetings(timeline: Timeline, grouped: pl.DataFrame, occasion: str) -> pl.DataFrame:
    """Return one row per meeting of a replica group, from stays grouped by `with_groups`.

    Columns: collective, occasion, turn, group, `fastest` (the stay without waiting, in ps), `wait`
    (of all devices, in ps), `last` (a device with that stay), `devices` (number of members).

    No device can continue before the last has arrived, so the stay of the last is the transfer
    alone. Without a common clock, the shortest stay is taken for that of the last.
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
    """Return whether start times of different hosts can be compared."""
    return all(host.clock_offset_ps is not None for host in timeline.hosts[1:])


_TOGETHER: Final = 0.9
"""Minimum share of executions in which all members overlap, for replica groups to be accepted."""

_SCHEMA: Final = {"collective": pl.UInt32, "device": pl.UInt16, "group": pl.UInt32}


def with_groups(
    timeline: Timeline, ops: pl.DataFrame, stays: pl.DataFrame, occasion: str
) -> pl.DataFrame:
    """Add `group`, the number of the device's replica group, to stays; null where unknown.

    `ops` has one row per op with the number of its `collective`. Stays belong together if they have
    the same `occasion` (a column of steps or runs) and the same `turn` in it.

    A device is assumed to be the participant whose number is its position among all devices, by
    host and ordinal. That holds for a program on all its devices in their usual order. Groups, and
    so waits, are unknown if the profile has other devices, or if members of a supposed group were
    not in the collective at the same time, by a clock that they share.
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
    """Return the clock of each device; a host that was not aligned with the first has its own."""
    own = [
        index if host.clock_offset_ps is None else 0 for index, host in enumerate(timeline.hosts)
    ]
    return {index: own[device.host] for index, device in enumerate(timeline.devices)}


def _members(timeline: Timeline, ops: pl.DataFrame) -> dict[int, dict[int, int]]:
    """Return the replica group of each device, per collective."""
    devices = timeline.devices
    order = sorted(range(len(devices)), key=lambda i: (devices[i].host, devices[i].ordinal))
    found: dict[int, dict[int, int]] = {}
    for op in ops.unique("collective", keep="first", maintain_order=True).iter_rows(named=True):
        size = op["group_size"]
        if size is None or size == len(devices):
            # All devices, or unknown.
            found[op["collective"]] = dict.fromkeys(order, 0)
        else:
            found[op["collective"]] = _by_device_groups(timeline, op, order)
    return found


def _by_device_groups(timeline: Timeline, op: dict[str, Any], order: list[int]) -> dict[int, int]:
    program = timeline.programs[int(op["program"])].hlo() if op["program"] is not None else None
    instruction = program.instruction(op["name"]) if program is not None else None
    if program is None or instruction is None:
        return {}
    if program.num_partitions * program.num_replicas != len(order):
        return {}
    return {
        order[member]: number
        for number, group in enumerate(device_groups(program, instruction))
        for member in group
        if member < len(order)
    }
