"""Aligns the clocks of several hosts on collectives that all ranks take part in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.hlo.collectives import device_groups
from counterpoint.timeline.model import Lane, Schema, Timeline

_PAIRS: Final = "send/recv"
_BY_HOST: Final = r"^(send|recv)(-done)?$"


@dataclass(frozen=True, slots=True)
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
    differences = (
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
        for host, ps, spread, count in differences.select(
            "host", "ps", "spread", "collectives"
        ).rows()
    }


def shared_ends(
    spans: pl.DataFrame, ops: pl.DataFrame, runs: pl.DataFrame, hosts: list[int]
) -> pl.DataFrame:
    """Return the ends of shared collectives per host.

    Each row has `end_ps` and its `difference` from the first host's.
    """
    ends = _ends(spans, ops, runs, hosts) if len(runs) else ends_in_turn(spans, ops, hosts)
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


def ends_in_turn(spans: pl.DataFrame, ops: pl.DataFrame, hosts: list[int]) -> pl.DataFrame:
    """Return the ends of shared collectives where the profile names no program, and so no runs.

    The columns are those of `_ends`; `index` is the place in the sequence of the first host. Hosts
    whose sequence does not fit are left out.
    """
    sequences = _sequences(spans, ops, hosts)
    if hosts[0] not in sequences:
        return pl.DataFrame(schema=_ENDS)
    names, ends = sequences[hosts[0]]
    parts: list[pl.DataFrame] = []
    for host, (own_names, own_ends) in sequences.items():
        shift = 0 if host == hosts[0] else _shift(names, ends, own_names, own_ends)
        if shift is not None:
            place = np.arange(len(own_ends)) + shift
            met = (place >= 0) & (place < len(ends))
            met[met] = names[place[met]] == own_names[met]
            own = {"host": host, "op": own_names[met], "index": place[met], "end_ps": own_ends[met]}
            parts.append(pl.DataFrame(own).with_columns(program=0, turn=0))
    return pl.concat([part.select(*_ENDS).cast({**_ENDS}) for part in parts])


def shared_time(spans: pl.DataFrame, ops: pl.DataFrame, hosts: list[int]) -> pl.DataFrame | None:
    """Return the time on each device from the first to the last collective that all hosts share.

    Without runs nothing else tells which parts of the profiles of several hosts belong together.
    None if hosts have several devices, or if they do not share collectives.
    """
    if len(set(hosts)) < 2 or len(set(hosts)) < len(hosts):
        return None
    ends = ends_in_turn(spans, ops, hosts)
    everywhere = ends.filter(pl.n_unique("host").over("index") == len(hosts))
    if everywhere["index"].n_unique() < _FEWEST:
        return None
    device = {host: index for index, host in enumerate(hosts)}
    return (
        everywhere.group_by("host")
        .agg(start_ps=pl.col("end_ps").min(), end_ps=pl.col("end_ps").max())
        .select(
            pl.col("host").replace_strict(device, return_dtype=pl.UInt16).alias("device"),
            "start_ps",
            "end_ps",
        )
    )


_ENDS: Final[Schema] = {
    "host": pl.Int64,
    "program": pl.Int64,
    "op": pl.String,
    "index": pl.Int64,
    "turn": pl.Int64,
    "end_ps": pl.Int64,
}
_FEWEST: Final = 8
"""Minimum number of collectives by which two sequences are matched."""
_ALIKE: Final = 0.95
"""Minimum share of equal names in two sequences that fit."""
_CLEARLY: Final = 4
"""The ends must deviate this many times less than with any other match: steps repeat."""

Sequence = tuple[NDArray[np.str_], NDArray[np.int64]]


def _sequences(spans: pl.DataFrame, ops: pl.DataFrame, hosts: list[int]) -> dict[int, Sequence]:
    """Return names and ends of the collectives of all devices, in order, by host.

    A device stands for its host. Transfers between two devices end on these alone.
    """
    everywhere = pl.col("group_size").is_null() | (pl.col("group_size") >= len(hosts))
    wanted = ops.with_row_index("row").filter(
        (pl.col("lane") == Lane.COLLECTIVE) & everywhere & (pl.col("collective") != _PAIRS)
    )
    # A name may have the number of bytes behind it, where the profile tells it.
    named = wanted.select("row", name=pl.col("name").str.extract(r"^([^ (]+)"))
    collectives = spans.join(named, left_on="op", right_on="row").with_columns(
        host=pl.col("device").replace_strict(dict(enumerate(hosts)), return_dtype=pl.Int64),
        end_ps=pl.col("start_ps") + pl.col("dur_ps"),
    )
    of_one = collectives.filter(pl.col("device") == pl.col("device").min().over("host"))
    return {
        int(str(host)): (own["name"].to_numpy().astype(str), own["end_ps"].to_numpy())
        for (host,), own in of_one.sort("end_ps").group_by("host", maintain_order=True)
    }


def _shift(
    names: NDArray[np.str_],
    ends: NDArray[np.int64],
    own_names: NDArray[np.str_],
    own_ends: NDArray[np.int64],
) -> int | None:
    """Return the place of a host's first collective in the sequence of another; None: not clear."""
    fits: list[tuple[float, int]] = []
    least = max(_FEWEST, min(len(ends), len(own_ends)) // 2)
    for shift in range(least - len(own_ends), len(ends) - least + 1):
        first, last = max(shift, 0), min(shift + len(own_ends), len(ends))
        here, there = slice(first, last), slice(first - shift, last - shift)
        if np.mean(names[here] == own_names[there]) < _ALIKE:
            continue
        apart = own_ends[there] - ends[here]
        fits.append((float(np.median(np.abs(apart - np.median(apart)))), shift))
    fits.sort()
    if not fits or (len(fits) > 1 and fits[1][0] < _CLEARLY * fits[0][0]):
        return None
    return fits[0][1]


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


def meetings(
    timeline: Timeline, grouped: pl.DataFrame, occasion: str, of: tuple[int, ...] | None = None
) -> pl.DataFrame:
    """Return one row per meeting of a replica group, from stays grouped by `with_groups`.

    Columns: collective, occasion, turn, group, `fastest` (the stay without waiting, in ps), `wait`
    (of all devices, or of those `of` which meetings are asked, in ps), `last` (a device with that
    stay), `devices` (number of members).

    No device can continue before the last has arrived, so the stay of the last is the transfer
    alone. Without a common clock, the shortest stay is taken for that of the last.
    """
    last_comes = pl.col("start_ps").max()
    waits = (last_comes - pl.col("start_ps")).clip(0, pl.col("dur_ps"))
    order = [pl.col("start_ps"), -pl.col("dur_ps"), pl.col("device")]
    if not one_clock(timeline):
        waits, order = pl.col("dur_ps") - pl.col("dur_ps").min(), order[1:]
    keys = ["collective", occasion, "turn", "group"]
    if of is not None:
        asked = pl.col("device").is_in(of)
        grouped = grouped.filter(asked.any().over(keys))
        waits = waits.filter(asked)
    return grouped.group_by(keys).agg(
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
    members: dict[int, dict[int, int]] = {}
    for op in ops.unique("collective", keep="first", maintain_order=True).iter_rows(named=True):
        size = op["group_size"]
        if size is None or size == len(devices):
            # All devices, or unknown.
            members[op["collective"]] = dict.fromkeys(order, 0)
        else:
            members[op["collective"]] = _by_device_groups(timeline, op, order)
    return members


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
