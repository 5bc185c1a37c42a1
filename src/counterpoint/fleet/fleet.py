"""The extracts of all hosts by device and step: matrices of milliseconds, on matched steps.

Steps of different hosts are matched as in a Timeline: by the user's numbers, by the sequence of
collectives, or backward from the last. No figure depends on clocks of hosts that agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core import InputError
from counterpoint.diagnose.selection import WindowKind
from counterpoint.fleet.extract import COLLECTIVES
from counterpoint.fleet.topology import HostPlace
from counterpoint.timeline.hosts import HostRuns, find_shifts
from counterpoint.timeline.model import Host

Matrix = NDArray[np.float64]
"""Milliseconds: a row per device, a column per step; NaN where a device has no such step."""

STAYS: Final = {
    **{name: COLLECTIVES[name] for name in COLLECTIVES if name not in ("device", "step")},
    "row": pl.UInt32,  # of the matrices
    "column": pl.UInt32,
}
"""How long each device stays in each collective in each step."""

_DIGITS: Final = re.compile(r"(\d+)")
_PS_PER_MS: Final = 1e9
_PARTS: Final = ("compute", "hidden", "exposed", "copy", "idle")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetHost:
    """A host, or one of its processes, and what is known of it.

    `name` is also that of its process, if several of a host have profiles; `machine` is the host's.
    `clock_ahead_ms` is by how much its clock is ahead of the median host's, and `clock_spread_ms`
    the median deviation of single steps from it; None if that is unknown.
    """

    name: str
    machine: str
    source: str
    place: HostPlace
    kind: str  # of its devices: gpu, tpu, cpu
    chip: str | None
    program: str | None
    build: str | None
    steps: int
    truncated: bool = False
    clock_ahead_ms: float | None = None
    clock_spread_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fleet:
    """Hosts in the order of their names, their devices one after another, and matched steps."""

    hosts: tuple[FleetHost, ...]
    host_of: NDArray[np.int64]  # of each device
    ordinals: NDArray[np.int64]
    steps: NDArray[np.int64]  # as the first host counts them
    length: Matrix
    compute: Matrix
    hidden: Matrix
    exposed: Matrix
    copy: Matrix
    idle: Matrix
    matched_by: str
    window: WindowKind = WindowKind.STEP  # what replaces steps if no host has a whole one
    collectives: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=STAYS))

    @property
    def machines(self) -> int:
        """The number of hosts, which may have several processes each."""
        return len({host.machine for host in self.hosts})

    @property
    def of_processes(self) -> bool:
        """Whether its rows are processes that share hosts."""
        return self.machines < len(self.hosts)

    @property
    def step_ms(self) -> float:
        """The median step, mean over devices."""
        return float(np.nanmedian(self.step_lengths))

    @property
    def step_lengths(self) -> NDArray[np.float64]:
        """Milliseconds of each step, mean over devices."""
        return np.nanmean(self.length, axis=0)

    @property
    def parts(self) -> dict[str, Matrix]:
        """What the steps consist of, by name."""
        return {name: getattr(self, name) for name in _PARTS}

    def of_hosts(self, matrix: Matrix) -> Matrix:
        """Return the mean over the devices of each host: a row per host."""
        known = np.isfinite(matrix)
        sums = np.zeros((len(self.hosts), matrix.shape[1]))
        counts = np.zeros_like(sums)
        np.add.at(sums, self.host_of, np.where(known, matrix, 0.0))
        np.add.at(counts, self.host_of, known)
        return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def arrange(extracts: pl.DataFrame, places: Mapping[str, HostPlace] | None = None) -> Fleet:
    """Return the fleet that merged extracts describe."""
    order = sorted(range(len(extracts)), key=lambda row: _natural(extracts.row(row, named=True)))
    extracts, window = _whole_steps(extracts[order])
    shifts, matched_by = _shifts(extracts)
    hosts = _hosts(extracts, places or {}, _clocks(extracts, shifts))

    def rows(of: str) -> pl.DataFrame:
        return extracts.select(of).with_row_index("host").explode(of).drop_nulls(of).unnest(of)

    table = rows("steps")
    if table.is_empty():
        raise InputError("no step was recorded whole on any host", next="profile more steps")
    moved = pl.col("step").cast(pl.Int64) + pl.col("host").replace_strict(shifts)
    table = table.with_columns(step=moved)
    devices = (
        extracts.select(device="devices")
        .with_row_index("host")
        .explode("device")
        .drop_nulls()
        .sort("host", "device")
        .with_row_index("row")
    )
    steps = table["step"].unique().sort()
    columns = pl.DataFrame({"step": steps}).with_row_index("column")
    table = table.join(devices, on=["host", "device"]).join(columns, on="step")
    table = table.with_columns(length_ps=pl.col("end_ps") - pl.col("start_ps"))
    stays = rows("collectives").with_columns(step=moved).join(devices, on=["host", "device"])
    at = (table["row"].to_numpy(), table["column"].to_numpy())

    def matrix(name: str) -> Matrix:
        made = np.full((len(devices), len(steps)), np.nan)
        made[at] = table[f"{name}_ps"].cast(pl.Float64).to_numpy() / _PS_PER_MS
        return made

    return Fleet(
        hosts=tuple(hosts),
        host_of=devices["host"].cast(pl.Int64).to_numpy(),
        ordinals=devices["device"].cast(pl.Int64).to_numpy(),
        steps=steps.to_numpy(),
        length=matrix("length"),
        **{name: matrix(name) for name in _PARTS},
        matched_by=matched_by,
        window=window,
        collectives=stays.join(columns, on="step").select(*STAYS),
    )


def _whole_steps(extracts: pl.DataFrame) -> tuple[pl.DataFrame, WindowKind]:
    """Leave out the windows of hosts that saw no whole step, unless no host saw one."""
    kinds = [WindowKind(each) for each in extracts["window"].unique().to_list()]
    if len(kinds) == 1:
        return extracts, kinds[0]
    window = next(kind for kind in WindowKind if kind in kinds)
    kept = pl.col("window") == window
    tables = ("steps", "collectives", "ends")
    return extracts.with_columns(
        pl.when(kept).then(pl.col(name)).otherwise(pl.lit([], extracts.schema[name]))
        for name in tables
    ), window


def _natural(row: Mapping[str, object]) -> tuple[list[tuple[int, str]], object, object]:
    """Put host-2 before host-10, and the processes of one host in the order of their devices."""
    parts = _DIGITS.split(str(row["host"]))
    name = [(int(part) if at % 2 else 0, part) for at, part in enumerate(parts)]
    return name, row["devices"], row["source"]


def _clocks(
    extracts: pl.DataFrame, shifts: Mapping[int, int]
) -> dict[int, tuple[float, float | None]]:
    """Return by how many ms each host's clock is ahead of the median host's, and the deviation.

    A collective of all devices ends everywhere at nearly the same moment: where there is none, or
    a profile does not say when it began, nothing is known.
    """
    of_all = extracts.select(
        pl.col("collectives").list.eval(
            pl.element().struct["group_size"] == pl.element().struct["members"]
        )
    )
    if not of_all.explode("collectives").to_series().any():
        return {}
    ends = (
        extracts.select("zero_ns", "ends")
        .with_row_index("host")
        .drop_nulls("zero_ns")
        .explode("ends")
        .drop_nulls("ends")
        .unnest("ends")
        .select(
            "host",
            step=pl.col("step").cast(pl.Int64) + pl.col("host").replace_strict(shifts),
            ns=pl.col("zero_ns") + pl.col("end_ps") // 1000,
        )
        .filter(pl.len().over("step") > 1)
    )
    # Nanoseconds since 1970 are too many for a float, which a median is.
    since_first = pl.col("ns") - pl.col("ns").min().over("step")
    ahead = ends.with_columns(ms=since_first / 1e6).with_columns(
        ms=pl.col("ms") - pl.col("ms").median().over("step")
    )
    offsets = ahead.group_by("host").agg(
        pl.col("ms").median().alias("median"),
        pl.when(pl.len() > 1)
        .then((pl.col("ms") - pl.col("ms").median()).abs().median())
        .alias("spread"),
    )
    return {host: (median, spread) for host, median, spread in offsets.rows()}


def _hosts(
    extracts: pl.DataFrame,
    places: Mapping[str, HostPlace],
    clocks: Mapping[int, tuple[float, float | None]],
) -> list[FleetHost]:
    names: list[str] = extracts["host"].to_list()
    met: dict[str, int] = {}
    hosts: list[FleetHost] = []
    rows = extracts.drop("collectives", "ops", "ends").iter_rows(named=True)
    for at, row in enumerate(rows):
        ahead_ms, spread_ms = clocks.get(at, (None, None))
        name = row["host"]
        machine = Host(name=name, source=row["source"]).machine
        number = met[name] = met.get(name, -1) + 1
        step = next((each for each in row["programs"] if each["is_step"]), None)
        hosts.append(
            FleetHost(
                name=f"{name} #{number}" if names.count(name) > 1 else name,
                source=row["source"],
                machine=machine,
                place=next(filter(None, map(places.get, _called(name, machine))), HostPlace()),
                kind=row["kind"],
                chip=row["chip"],
                program=step and step["name"],
                build=step and step["build"],
                steps=len({each["step"] for each in row["steps"]}),
                truncated=row["truncated"],
                clock_ahead_ms=ahead_ms,
                clock_spread_ms=spread_ms,
            )
        )
    return hosts


def _called(name: str, machine: str) -> tuple[str, ...]:
    """Return the names by which a topology may call a host."""
    return name, machine, machine.partition(".")[0]


def absent_hosts(places: Mapping[str, HostPlace], fleet: Fleet) -> list[str]:
    """Return the hosts of a topology that the fleet lacks."""
    own = {text for host in fleet.hosts for text in _called(host.name, host.machine)}
    return [name for name in places if name not in own]


def _shifts(extracts: pl.DataFrame) -> tuple[dict[int, int], str]:
    """Return what to add to the step numbers of each host, and how they were matched.

    A host without steps of its own stays where it is.
    """
    runs: dict[int, HostRuns] = {}
    marked = bool(extracts["marked"].all())
    empty = np.empty(0, np.int64)
    for host, row in enumerate(extracts.select("steps", "ends").iter_rows()):
        steps = sorted({each["step"] for each in row[0]})
        if not steps:
            continue
        index = np.array(steps, np.int64)
        starts = {step: min(e["start_ps"] for e in row[0] if e["step"] == step) for step in steps}
        ends = {each["step"]: each["end_ps"] for each in row[1]}
        whole = all(step in ends for step in steps)
        runs[host] = HostRuns(
            index=index,
            start=np.array([starts[step] for step in steps], np.int64),
            end=np.array([ends[step] for step in steps], np.int64) if whole else empty,
            key=empty,
            step=index if marked else empty,
        )
    if not runs:
        return dict.fromkeys(range(len(extracts)), 0), ""
    shifts = find_shifts(runs, clocks_agree=False)
    return {host: shifts.by_host.get(host, 0) for host in range(len(extracts))}, shifts.told_by
