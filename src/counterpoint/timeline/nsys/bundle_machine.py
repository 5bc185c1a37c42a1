"""The machine that an nsys-jax bundle describes: its GPUs, and which thread launched on which."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from counterpoint.core import InputError
from counterpoint.timeline.model import Device
from counterpoint.timeline.nsys.annotations import DeviceIds, parse_device_ids
from counterpoint.timeline.nsys.archive import Archive
from counterpoint.timeline.nsys.target import host_name, select_facts

THREADS: Final = "thread-metadata.parquet"
SYSTEM: Final = "system-metadata.parquet"
DEVICES: Final = "device-metadata.parquet"

_GPU: Final = "('TARGET_INFO_GPU', '{}')"
_NAMED: Final = "('TARGET_INFO_NVTX_CUDA_DEVICE', '{}')"


@dataclass(frozen=True, slots=True, eq=False)
class BundleMachine:
    """The machine that a bundle describes. `launchers` maps (pid, tid) to the device."""

    host: str | None
    devices: tuple[Device, ...]
    launchers: Mapping[tuple[int, int], int]
    names: Mapping[int, str]
    facts: Mapping[str, str]
    notes: tuple[str, ...]

    def device_of(self, ranges: pl.DataFrame) -> pl.DataFrame:
        """Return the device that each range launches on, null where unknown."""
        if len(self.devices) == 1:
            return pl.select(device=pl.repeat(0, len(ranges), dtype=pl.UInt16))
        rows = [(pid, tid, device) for (pid, tid), device in self.launchers.items()]
        schema = {"pid": pl.Int64, "tid": pl.Int64, "device": pl.UInt16}
        known = pl.DataFrame(rows, schema=schema, orient="row")
        return ranges.join(known, on=["pid", "tid"], how="left", maintain_order="left").select(
            "device"
        )

    def thread_names(self, threads: Sequence[int]) -> list[str]:
        """Return the names of lines for threads."""
        return [f"{self.names.get(thread, 'thread')} {thread}" for thread in threads]


def read_machine(archive: Archive, rank: str | None, ranges: pl.DataFrame) -> BundleMachine:
    """Read the thread, system and device metadata; each may be missing."""
    threads = _columns(
        archive, THREADS, rank, {"Name": pl.String, "PID": pl.Int64, "TID": pl.Int64}
    )
    system = _columns(archive, SYSTEM, rank, {"name": pl.String, "value": pl.String})
    launchers = {
        (pid, tid): place
        for name, pid, tid in threads.rows()
        if (place := parse_device_ids(name)) is not None
    }
    described = _described(archive, rank)
    places = sorted({*launchers.values(), *(p for p, _ in described if p is not None)}, key=_local)
    index = {place.local_id: number for number, place in enumerate(places)}
    on_device = {thread: index[place.local_id] for thread, place in launchers.items()}
    if not places and (alike := _alike_threads(ranges)):
        on_device = {thread: number for number, thread in enumerate(alike)}
        devices, notes = _numbered(len(alike), described, archive.source)
    else:
        devices, notes = _devices(places, described, ranges, archive.source)
    if any(device.chip is None for device in devices):
        chip = archive.chip(rank)
        devices = tuple(device if device.chip else replace(device, chip=chip) for device in devices)
    pairs = dict(system.rows())
    return BundleMachine(
        host_name(pairs.get("Hostname"), places),
        devices,
        on_device,
        {tid: name for name, _, tid in threads.rows()},
        select_facts(pairs),
        notes,
    )


def _alike_threads(ranges: pl.DataFrame) -> list[tuple[int, int]]:
    """Return the threads that launched equally many thunks, where nothing names their devices.

    XLA starts a thread for each device of a process, and each runs the same program. Bundles of
    mid-2024 do not name threads.
    """
    counts = (
        ranges.filter(pl.col("text").str.contains("Thunk:#", literal=True))
        .group_by("pid", "tid")
        .len("thunks")
        .sort("pid", "tid")
    )
    most = counts.filter(pl.col("thunks") == pl.col("thunks").max())
    alike = len(most) > 1 and 2 * most["thunks"].sum() > counts["thunks"].sum()
    return [(pid, tid) for pid, tid, _ in most.rows()] if alike else []


def _numbered(
    count: int, described: Sequence[tuple[DeviceIds | None, Device]], source: str
) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """Return a device for each launching thread, in the order of the threads."""
    known = sorted((device for _, device in described), key=lambda device: device.ordinal)
    devices = (
        known if len(known) == count else [Device(ordinal=n, kind="gpu") for n in range(count)]
    )
    note = (
        f"{source} does not name the GPUs of its {count} launching threads, which launched equally"
        " much; they are numbered in the order of their threads"
    )
    return tuple(devices), (note,)


def _local(place: DeviceIds) -> int:
    return place.local_id


def _described(archive: Archive, rank: str | None) -> list[tuple[DeviceIds | None, Device]]:
    """Return place and Device of each GPU that XLA named; pandas wrote column names as pairs."""
    wanted: dict[str, type[pl.DataType]] = {
        _NAMED.format("name"): pl.String,
        _NAMED.format("deviceId"): pl.Int64,
        _GPU.format("name"): pl.String,
        _GPU.format("memoryBandwidth"): pl.Float64,
    }
    if not archive.has(DEVICES, rank):
        return []
    devices: list[tuple[DeviceIds | None, Device]] = []
    for name, number, chip, bandwidth in _columns(archive, DEVICES, rank, wanted, keep=True).rows():
        place = parse_device_ids(name or "")
        ordinal = place.local_id if place else number
        if ordinal is not None:
            peak = bandwidth if bandwidth and 0 < bandwidth < math.inf else None
            devices.append((place, Device(ordinal=ordinal, kind="gpu", chip=chip, peak_bytes=peak)))
    return devices


def _devices(
    places: Sequence[DeviceIds],
    described: Sequence[tuple[DeviceIds | None, Device]],
    ranges: pl.DataFrame,
    source: str,
) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    by_ordinal = {device.ordinal: device for _, device in described}
    if places:
        return tuple(
            by_ordinal.get(place.local_id, Device(ordinal=place.local_id, kind="gpu"))
            for place in places
        ), ()
    if len(by_ordinal) == 1:
        return tuple(by_ordinal.values()), ()
    if ranges.select("pid", "tid").n_unique() <= 1:
        return (Device(ordinal=0, kind="gpu"),), (
            f"{source} does not name the GPU of its only launching thread; it is numbered 0",
        )
    raise InputError(
        f"{source}: the GPU that each thread launched on is unknown",
        why=f"{THREADS} holds no thread named XlaLauncher:#global=..., the name that XLA gives",
        next="nsys export --type sqlite FILE.nsys-rep",
    )


def _columns(
    archive: Archive,
    name: str,
    rank: str | None,
    wanted: Mapping[str, type[pl.DataType]],
    *,
    keep: bool = False,
) -> pl.DataFrame:
    """Return columns of a member, null where it lacks them; `keep` keeps rows with nulls."""
    table = archive.table(name, rank)
    if table is None:
        return pl.DataFrame(schema=dict(wanted))
    chosen = [
        (pl.col(column) if column in table.columns else pl.lit(None))
        .cast(dtype, strict=False)
        .alias(column)
        for column, dtype in wanted.items()
    ]
    frame = archive.select(name, table, chosen)
    return frame if keep else frame.drop_nulls()
