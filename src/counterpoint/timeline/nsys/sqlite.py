"""Reads `nsys export --type sqlite`, schemas 3.0 to 3.25, into a Recording.

Kernels, copies and memsets are spans on the lines of their streams; their ops and module executions
come from the NVTX ranges they were launched under (`launches`). A profile without XLA's ranges can
be read too: its ops are null. Not read: CPU samples, OS calls, GPU metrics, and
CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, whose waits are also CUDA API calls on their threads.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Final

import polars as pl

from counterpoint.core import InputError
from counterpoint.core.scratch import scratch_directory
from counterpoint.timeline.model import Device
from counterpoint.timeline.nsys.annotations import parse_annotations
from counterpoint.timeline.nsys.database import Database
from counterpoint.timeline.nsys.tables import (
    ReportClock,
    add_layers,
    build_markers,
    build_ops,
    build_spans,
    find_clock,
    number_lines,
    place_events,
)
from counterpoint.timeline.nsys.target import (
    HostRanges,
    find_devices,
    host_name,
    intern,
    read_calls,
    read_diagnostics,
    read_facts,
    read_hostname,
    read_places,
    read_ranges,
    read_thread_names,
    schema_notes,
)
from counterpoint.timeline.nsys.work import (
    WORK_KEYS,
    attribute_work,
    describe,
    executions,
    read_activities,
)
from counterpoint.timeline.recording import Recording

_NSYS_TABLES: Final = ("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS", "TARGET_INFO_", "META_DATA_EXPORT")
_STREAM: Final = ("device", "stream", "layer")


def read_sqlite(path: str | Path) -> Recording:
    """Read an SQLite export of Nsight Systems."""
    with Database(Path(path)) as database:
        _check(database)
        return _read(database)


def _check(database: Database) -> None:
    tables = sorted(database.tables)
    if "StringIds" in tables and any(table.startswith(_NSYS_TABLES) for table in tables):
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
    work = attribute_work(database, activities, host, annotations, calls, clock)
    devices, rows, doubts = _on_devices(database, work.rows)
    streams, rows = number_lines(add_layers(rows, _STREAM[:2]), _STREAM)
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
        notes=(*work.notes, *doubts, *schema_notes(facts), *read_diagnostics(database)),
    )


def _on_devices(
    database: Database, rows: pl.DataFrame
) -> tuple[list[Device], pl.DataFrame, list[str]]:
    """Return the devices, and the rows with `device` as the index among them."""
    keys = ["pid", "device"]
    devices, index_of, doubts = find_devices(database, rows.select(keys))
    indexed = rows.join(index_of, on=keys, how="left", maintain_order="left", nulls_equal=True)
    return devices, indexed.drop("device").rename({"index": "device"}), doubts


def _host_events(
    host: HostRanges, calls: pl.DataFrame, clock: ReportClock, first_line: int
) -> tuple[list[int], list[str], pl.DataFrame]:
    """Return threads, names and events of the host: completed NVTX ranges, and CUDA API calls."""
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


def _markers(host: HostRanges, annotations: pl.DataFrame, clock: ReportClock) -> pl.DataFrame:
    """Return JAX's step markers, if they reached NVTX."""
    steps = annotations.select("step", name=pl.col("text").str.extract(r"^([^#]*)"))
    ranges = pl.concat([host.ranges, steps[host.ranges["text"]]], how="horizontal")
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


_MAX_QUOTED_CHARACTERS: Final = 500
"""Maximum number of characters quoted from the tool's output."""


def read_nsys_rep(path: str | Path) -> Recording:
    """Export a report with the `nsys` on PATH and read the export.

    The report's format is proprietary, so this needs the tool itself. The export goes to a
    temporary directory that is always removed, and the tool is stopped with its caller.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    nsys = shutil.which("nsys")
    if nsys is None:
        raise InputError(
            f"{path}: a .nsys-rep report needs Nsight Systems, and `nsys` is not on PATH",
            why="`nsys export` converts it to .sqlite on a machine that has Nsight Systems",
            next=shlex.join(
                ["nsys", "export", "--type", "sqlite", "-o", f"{path.stem}.sqlite", path.name]
            ),
        )
    with scratch_directory("nsys") as directory:
        export = directory / "export.sqlite"
        _export(nsys, path, export)
        return replace(read_sqlite(export), source=str(path))


def _export(nsys: str, report: Path, export: Path) -> None:
    command = [nsys, "export", "--type", "sqlite", "--output", str(export), str(report.resolve())]
    try:
        code, output = _run(command)
    except OSError as failure:
        raise InputError(f"{report}: {nsys} can't be run: {failure}") from None
    if code or not export.is_file():
        raise InputError(
            f"{report}: `nsys export` failed with exit code {code}",
            why=output[-_MAX_QUOTED_CHARACTERS:] or None,
            next=shlex.join([*command[:4], str(report)]),
        )


def _run(command: list[str]) -> tuple[int, str]:
    """Return the exit code and the tool's output; kill the tool on an interrupt."""
    with subprocess.Popen(  # noqa: S603 - the user's own profiler
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as tool:
        try:
            output, errors = tool.communicate()
        finally:
            tool.kill()
            tool.wait()
    return tool.returncode, errors.strip() or output.strip()
