"""`nsys export --type sqlite`, schemas 3.0 to 3.25, as a Recording.

Kernels, copies and memsets are spans on the lines of their streams; their ops and module
executions come from the NVTX ranges they were launched under (`launches`). A profile without XLA's
ranges is read all the same: its ops are null. Not read: CPU samples, OS calls, GPU metrics,
and CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, whose waits are also CUDA API calls on their threads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from counterpoint.core.errors import InputError
from counterpoint.timeline.device import Device
from counterpoint.timeline.nsys.activities import read_activities
from counterpoint.timeline.nsys.annotations import parse_annotations
from counterpoint.timeline.nsys.database import Database
from counterpoint.timeline.nsys.host_ranges import HostRanges, intern, read_calls, read_ranges
from counterpoint.timeline.nsys.tables import (
    Clock,
    build_markers,
    build_ops,
    build_spans,
    find_clock,
    number_lines,
    place_events,
    spread,
)
from counterpoint.timeline.nsys.target import (
    doubt_schema,
    find_devices,
    host_name,
    read_diagnostics,
    read_facts,
    read_hostname,
    read_places,
    read_thread_names,
)
from counterpoint.timeline.nsys.work import WORK_KEYS, attribute, describe, executions
from counterpoint.timeline.recording import Recording

_TELLTALE: Final = ("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS", "TARGET_INFO_", "META_DATA_EXPORT")
_STREAM: Final = ("device", "stream", "layer")


def read_sqlite(path: str | Path) -> Recording:
    """Read an SQLite export of Nsight Systems."""
    with Database(Path(path)) as database:
        _check(database)
        return _read(database)


def _check(database: Database) -> None:
    tables = sorted(database.tables)
    if "StringIds" in tables and any(table.startswith(_TELLTALE) for table in tables):
        return
    shown = ", ".join(tables[:5]) + (", ..." if len(tables) > 5 else "")
    raise InputError(
        f"{database.path}: not an SQLite export of Nsight Systems",
        why=f"it lacks StringIds or any CUPTI or NVTX table (tables found: {shown or 'none'})",
        next="nsys export --type sqlite -o out.sqlite FILE.nsys-rep",
    )


def _read(database: Database) -> Recording:
    strings = database.read("StringIds", ("id",), ("value",)).unique("id", keep="first")
    host, calls = read_ranges(database, strings), read_calls(database, strings)
    annotations = parse_annotations(host.texts)
    activities = read_activities(database, strings)
    clock = find_clock(activities, host.ranges, calls)
    work = attribute(database, activities, host, annotations, calls, clock)
    devices, rows, doubts = _on_devices(database, work.rows)
    streams, rows = number_lines(spread(rows, _STREAM[:2]), _STREAM)
    names = rows.select(WORK_KEYS).unique(maintain_order=True)
    threads, host_names, events = _host_events(host, calls, clock, len(streams))
    places, facts = read_places(database, strings), read_facts(database)
    return Recording(
        source=str(database.path),
        host=host_name(read_hostname(database), places) or database.path.name,
        devices=tuple(devices),
        lines=(
            *_stream_names(streams, devices),
            *_thread_names(threads, read_thread_names(database, strings)),
        ),
        ops=build_ops(describe(names, annotations)),
        spans=build_spans(clock.picoseconds(rows).rename({"run": "run_key"}), WORK_KEYS, names),
        executions=executions(rows, annotations, clock),
        markers=_markers(host, annotations, clock),
        host_events=events,
        host_names=tuple(host_names),
        environment=facts,
        notes=(*work.notes, *doubts, *doubt_schema(facts), *read_diagnostics(database)),
    )


def _on_devices(
    database: Database, rows: pl.DataFrame
) -> tuple[list[Device], pl.DataFrame, list[str]]:
    """The devices, and `device` of each row as its place among them."""
    keys = ["pid", "device"]
    devices, index_of, doubts = find_devices(database, rows.select(keys))
    placed = rows.join(index_of, on=keys, how="left", maintain_order="left", nulls_equal=True)
    return devices, placed.drop("device").rename({"index": "device"}), doubts


def _host_events(
    host: HostRanges, calls: pl.DataFrame, clock: Clock, first_line: int
) -> tuple[list[int], list[str], pl.DataFrame]:
    """Threads, names and events of the host: NVTX ranges that ended, and CUDA API calls."""
    api_names, api_codes = intern(calls["name"])
    first = pl.lit(len(host.texts), pl.UInt32)
    happened = pl.concat(
        [
            host.ranges.select("thread", "start", "end", name="text"),
            calls.select("thread", "start", "end", name=api_codes + first),
        ]
    )
    threads, events = place_events(happened, clock, first_line)
    return threads, [*host.texts.to_list(), *api_names.to_list()], events


def _markers(host: HostRanges, annotations: pl.DataFrame, clock: Clock) -> pl.DataFrame:
    """JAX's step markers, where they reached NVTX."""
    told = annotations.select("step", name=pl.col("text").str.extract(r"^([^#]*)"))
    ranges = pl.concat([host.ranges, told[host.ranges["text"]]], how="horizontal")
    return build_markers(
        ranges.filter(pl.all_horizontal(pl.col("step", "end").is_not_null())), clock
    )


def _stream_names(streams: pl.DataFrame, devices: list[Device]) -> list[str]:
    return [
        f"GPU {devices[int(device)].ordinal}/stream {'?' if stream is None else stream}"
        + (f" ({layer + 1})" if layer else "")
        for device, stream, layer in streams.select(_STREAM).rows()
    ]


def _thread_names(threads: list[int], names: dict[int, str]) -> list[str]:
    return [f"{names.get(thread, 'thread')} {thread % (1 << 24)}" for thread in threads]
