"""The members of an nsys-jax bundle, and the machine that they describe.

`nsys-jax` writes the files of one rank. `nsys-jax-combine` merges such bundles: a file that differs
between ranks becomes a directory of that name with one file per rank, named like the rank's bundle;
a file that does not differ, or that only one rank has, stays as it is.

Damage is detected by the zip's own checksums, before the Parquet reader sees the data.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final

import polars as pl

from counterpoint.core import InputError
from counterpoint.core.frozen import frozen
from counterpoint.core.parquet_counts import check_parquet
from counterpoint.core.unpacking import member as unzipped
from counterpoint.core.unpacking import unpack
from counterpoint.timeline.model import Device, EmbeddedProgram
from counterpoint.timeline.nsys.annotations import DeviceIds, parse_device_ids
from counterpoint.timeline.nsys.target import host_name, intern, select_facts

TRACE: Final = "nvtx_gpu_proj_trace/trace.parquet"
THREADS: Final = "thread-metadata.parquet"
SYSTEM: Final = "system-metadata.parquet"
DEVICES: Final = "device-metadata.parquet"
HOST_TRACE: Final = "report_nvtx_pushpop_trace"

_HLO: Final = re.compile(
    r"dump/module_(\d+)\.(.+?)\.[^/]*after_optimizations\.hlo\.pb(\.xz)?(?:/(.+))?$"
)


def is_nsys_jax(archive: zipfile.ZipFile) -> bool:
    """Return whether an archive is a bundle: it contains the trace of projected ranges."""
    return any(name == TRACE or name.startswith(TRACE + "/") for name in archive.namelist())


class Archive:
    """The members of a bundle, by their names in a bundle of one rank."""

    def __init__(self, archive: zipfile.ZipFile, source: str) -> None:
        self.source = source
        self._archive = archive
        self._names = set(archive.namelist())

    def ranks(self) -> list[str | None]:
        """Return the ranks in the bundle; [None] for a single, unnamed rank."""
        prefix = TRACE + "/"
        merged = sorted(
            name.removeprefix(prefix) for name in self._names if name.startswith(prefix)
        )
        return [name for name in merged if name] or [None]

    def has(self, name: str, rank: str | None) -> bool:
        """Return whether the rank has this file."""
        return self._locate(name, rank) is not None

    def read(self, name: str, rank: str | None) -> bytes | None:
        """Return the bytes of a rank's file, None if it has none."""
        member = self._locate(name, rank)
        return None if member is None else self._read(member)

    def table(self, name: str, rank: str | None) -> pl.DataFrame | None:
        """Read a rank's Parquet file."""
        data = self.read(name, rank)
        if data is None:
            return None
        try:
            check_parquet(data)
            return pl.read_parquet(io.BytesIO(data))
        except (
            pl.exceptions.PolarsError,
            pl.exceptions.PanicException,
            ValueError,
            OSError,
        ) as failure:
            raise self.broken(name, str(failure).partition("\n")[0]) from None

    def select(self, name: str, table: pl.DataFrame, columns: Sequence[pl.Expr]) -> pl.DataFrame:
        """Return columns of a member; raise InputError where one has a type without a number."""
        try:
            return table.select(columns)
        except pl.exceptions.PolarsError as failure:
            raise self.broken(name, str(failure).partition("\n")[0]) from None

    def programs(self, rank: str | None) -> dict[str, EmbeddedProgram]:
        """Return a rank's optimized modules by program id; each is decompressed on first use."""
        found: dict[str, EmbeddedProgram] = {}
        for name in sorted(self._names):
            match = _HLO.match(name)
            if match and match[4] in (None, rank):
                data = self._read(name)
                load = self._loader(name, data) if match[3] else _constant(data)
                digest = sha256(data).digest()
                found[str(int(match[1]))] = EmbeddedProgram(match[2], load, digest=digest)
        return found

    def broken(self, name: str, why: str) -> InputError:
        """Return the error for a member that can't be read."""
        return InputError(
            f"{self.source}: {name} can't be read",
            why=why,
            next="copy the bundle again, or run nsys-jax again",
        )

    def _locate(self, name: str, rank: str | None) -> str | None:
        own = f"{name}/{rank}"
        if rank is not None and own in self._names:
            return own
        return name if name in self._names else None

    def _read(self, member: str) -> bytes:
        return unzipped(self._archive, member, self.source)

    def _loader(self, name: str, data: bytes) -> Callable[[], bytes]:
        held: list[bytes] = []

        def load() -> bytes:
            # A program is loaded to compare it with those of other hosts, and then to read it.
            if held:
                return held.pop()
            held.append(unpack(data, f"{self.source}: {name}"))
            return held[0]

        return load


def _constant(data: bytes) -> Callable[[], bytes]:
    return lambda: data


_GPU: Final = "('TARGET_INFO_GPU', '{}')"
_NAMED: Final = "('TARGET_INFO_NVTX_CUDA_DEVICE', '{}')"


@frozen(eq=False)
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
    found: list[tuple[DeviceIds | None, Device]] = []
    for name, number, chip, bandwidth in _columns(archive, DEVICES, rank, wanted, keep=True).rows():
        place = parse_device_ids(name or "")
        ordinal = place.local_id if place else number
        if ordinal is not None:
            peak = bandwidth if bandwidth and 0 < bandwidth < math.inf else None
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


_START, _END, _NAME, _THREAD = "Start (ns)", "End (ns)", "Name", "TID"
_COLUMNS: Final = {_START: pl.Int64, _END: pl.Int64, _NAME: pl.String, _THREAD: pl.Int64}


@frozen(eq=False)
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
        notes = (f"{archive.source} has no {HOST_TRACE}: host activity is unknown",)
    wanted = [pl.col(name).cast(kind, strict=False) for name, kind in _COLUMNS.items()]
    table = archive.select(HOST_TRACE, table, wanted).drop_nulls()
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
    content = unpack(packed, f"{archive.source}: {HOST_TRACE}")
    try:
        return pl.read_csv(io.BytesIO(content), infer_schema=False)
    except pl.exceptions.NoDataError:
        return None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as failure:
        raise archive.broken(HOST_TRACE, str(failure).partition("\n")[0]) from None
