"""The rank of an nsys-jax bundle: its host, its GPUs, and the GPU that each thread launches on.

XLA names the thread that launches on a GPU after it, but only if a process has several GPUs; with a
single one the main thread launches.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.core import InputError
from counterpoint.timeline.device import Device
from counterpoint.timeline.nsys.annotations import DeviceIds, parse_device_ids
from counterpoint.timeline.nsys.archive import DEVICES, HOST_TRACE, SYSTEM, THREADS, Archive
from counterpoint.timeline.nsys.target import host_name, intern, select_facts

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
    devices, notes = _devices(places, described, ranges, archive.source)
    index = {place.local_id: number for number, place in enumerate(places)}
    pairs = dict(system.rows())
    return BundleMachine(
        host_name(pairs.get("Hostname"), places),
        devices,
        {thread: index[place.local_id] for thread, place in launchers.items()},
        {tid: name for name, _, tid in threads.rows()},
        select_facts(pairs),
        notes,
    )


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
    found: list[tuple[DeviceIds | None, Device]] = []
    for name, number, chip, bandwidth in _columns(archive, DEVICES, rank, wanted, keep=True).rows():
        place = parse_device_ids(name or "")
        ordinal = place.local_id if place else number
        if ordinal is not None:
            peak = bandwidth if bandwidth and bandwidth > 0 else None
            found.append((place, Device(ordinal=ordinal, kind="gpu", chip=chip, peak_bytes=peak)))
    return found


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
            f"{source} does not tell on which GPU its only launching thread ran; it is called 0",
        )
    raise InputError(
        f"{source}: can't tell which GPU each thread launched on",
        why=f"{THREADS} names no thread XlaLauncher:#global=..., as XLA does",
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
    frame = table.select(
        (pl.col(column) if column in table.columns else pl.lit(None))
        .cast(dtype, strict=False)
        .alias(column)
        for column, dtype in wanted.items()
    )
    return frame if keep else frame.drop_nulls()


_START, _END, _NAME, _THREAD = "Start (ns)", "End (ns)", "Name", "TID"
_COLUMNS: Final = {_START: pl.Int64, _END: pl.Int64, _NAME: pl.String, _THREAD: pl.Int64}


@dataclass(frozen=True, slots=True, eq=False)
class BundleHost:
    """Host ranges. `events` has thread, start, end and name, a row of `names`."""

    events: pl.DataFrame
    names: tuple[str, ...]
    notes: tuple[str, ...]


def read_bundle_host(archive: Archive, rank: str | None) -> BundleHost:
    """Read the host's ranges; none if the bundle has none.

    They are all NVTX ranges, with or without GPU work, so they include compilation. The member is
    `report_nvtx_pushpop_trace`: `.parquet`, or `.csv.xz` before 2026.
    """
    table = _read(archive, rank)
    notes: tuple[str, ...] = ()
    if table is None or not set(_COLUMNS) <= set(table.columns):
        table = pl.DataFrame(schema=_COLUMNS)
        notes = (f"{archive.source} has no {HOST_TRACE}: what the host did is unknown",)
    table = table.select(pl.col(name).cast(kind, strict=False) for name, kind in _COLUMNS.items())
    table = table.drop_nulls()
    names, codes = intern(table[_NAME])
    events = table.select(start=_START, end=_END, thread=_THREAD).with_columns(name=codes)
    return BundleHost(events, tuple(names.to_list()), notes)


def _read(archive: Archive, rank: str | None) -> pl.DataFrame | None:
    table = archive.table(f"{HOST_TRACE}.parquet", rank)
    if table is not None:
        return table
    packed = archive.read(f"{HOST_TRACE}.csv.xz", rank)
    if packed is None:
        return None
    content = archive.unpack(HOST_TRACE, packed)
    try:
        return pl.read_csv(io.BytesIO(content), infer_schema=False)
    except pl.exceptions.NoDataError:
        return None
    except pl.exceptions.PolarsError as failure:
        raise archive.broken(HOST_TRACE, str(failure).partition("\n")[0]) from None
