"""Reads a `trace.json` or `trace.json.gz` into a Recording."""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

from counterpoint.core import Basis, InputError, Range
from counterpoint.core.opening import open_input
from counterpoint.timeline.chrome.columns import Columns, TooMany, sort_tracks
from counterpoint.timeline.chrome.stream import (
    Event,
    NotATrace,
    Reached,
    UnpacksTooFar,
    read_events,
    read_head,
    text_blocks,
)
from counterpoint.timeline.chrome.tracks import Tracks, gather
from counterpoint.timeline.model import Device, Host
from counterpoint.timeline.recording import Recording

_WRITER: Final = "counterpoint "
_MOST: Final = 1e300  # a larger one would overflow where numbers are multiplied


@dataclass(frozen=True, slots=True)
class TraceMetadata:
    """Properties of the original Timeline, besides its spans.

    Without them a stored prediction would read back as measured. A viewer that saves a trace again
    drops them. Anyone can edit a file, so fields of the wrong type count as missing.
    """

    basis: Basis
    target: str | None
    predicted_range: Range | None
    host: str | None  # name; None unless there was exactly one host
    known: Mapping[tuple[str, int], Device]  # by kind and ordinal; empty for several hosts
    notes: tuple[str, ...]

    def devices(self, devices: Sequence[Device]) -> tuple[Device, ...]:
        """Return the devices of the trace, completed with the known chip data."""
        return tuple(self._known(device) for device in devices)

    def _known(self, device: Device) -> Device:
        known = self.known.get((device.kind, device.ordinal))
        if known is None:
            return device
        chip, flops, rate = known.chip, known.peak_flops, known.peak_bytes
        return replace(device, chip=chip, peak_flops=flops, peak_bytes=rate)


def read_metadata(head: Mapping[str, object]) -> TraceMetadata | None:
    """Parse the head of a trace; None unless the trace was written from a Timeline."""
    about = _fields(head.get("otherData"))
    writer = about.get("writer")
    if not isinstance(writer, str) or not writer.startswith(_WRITER):
        return None
    hosts = _texts(about.get("hosts"))
    devices = [_device(_fields(device)) for device in _list(about.get("devices"))]
    basis = Basis(name) if (name := about.get("basis")) in list(Basis) else Basis.MEASURED
    target = about.get("target")
    if basis is Basis.PREDICTED and "target" not in about and hosts:
        target = Host(name=hosts[0], source="").target
    return TraceMetadata(
        basis=basis,
        target=target if isinstance(target, str) else None,
        predicted_range=_range(about.get("predicted_range_s")),
        host=hosts[0] if len(hosts) == 1 else None,
        known={(device.kind, device.ordinal): device for device in devices if device}
        if len(hosts) == 1
        else {},
        notes=tuple(_texts(about.get("notes"))),
    )


def _range(value: object) -> Range | None:
    match [_rate(bound) for bound in _list(value)]:
        case [float(low), float(high)] if low <= high:
            return Range(low, high)
        case _:
            return None


def _device(fields: Mapping[str, object]) -> Device | None:
    kind, ordinal, chip = fields.get("kind"), fields.get("ordinal"), fields.get("chip")
    if not isinstance(kind, str) or not isinstance(ordinal, int):
        return None
    return Device(
        kind=kind,
        ordinal=ordinal,
        chip=chip if isinstance(chip, str) else None,
        peak_flops=_rate(fields.get("peak_flops")),
        peak_bytes=_rate(fields.get("peak_bytes")),
    )


def _rate(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 < value < _MOST else None


def _fields(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [text for text in _list(value) if isinstance(text, str)]


MOST_EVENTS: Final = 1_000_000
"""XLA writes at most this many events to a trace.json: those that start first."""

_SUFFIXES: Final = (".gz", ".json", ".trace")

_BY_HANDLER: Final = re.compile(r"(?P<host>.+)_(?P<process>\d+)\.\d+\.pt\.trace\.json(\.gz)?$")
"""How PyTorch's `tensorboard_trace_handler` names a trace: by the host's name and the process."""

_NO_HOST: Final = "the trace does not tell its host, so it is unknown which share fast links"


def _silent(offset: int) -> None:
    del offset


def read_trace_json(
    data: bytes | memoryview | Path, source: str, reached: Reached = _silent
) -> Recording:
    """Read one host's trace; `source` is its name in messages."""
    if isinstance(data, Path):
        data = _map(data)
    try:
        return _read(memoryview(data), source, reached)
    except (NotATrace, TooMany, UnpacksTooFar) as reason:
        raise InputError(
            f"{source}: not a Chrome trace: {reason}",
            why="a trace is a JSON list of events, or an object with such a list as `traceEvents`",
            next="give the trace.json.gz that the profiler wrote, or the .xplane.pb beside it",
        ) from None


def _map(path: Path) -> memoryview:
    try:
        with open_input(path) as file:
            if not path.stat().st_size:
                return memoryview(b"")
            # Not closed here: a traceback may still read it. The garbage collector closes it.
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: can't be read: {getattr(error, 'strerror', None) or error}",
            next=f"ls -l {path}",
        ) from None


def _read(data: memoryview, source: str, reached: Reached) -> Recording:
    head = read_head(text_blocks(data, _silent))
    written = read_metadata(head)
    is_own_format = written is not None
    tail: Event = {}
    tracks = gather(read_events(text_blocks(data, reached), tail), ours=is_own_format)
    head = {**tail, **head}  # a tool that saves a trace again may write the events first
    if not tracks.rows:
        raise InputError(
            f"{source}: no events with a start and a duration",
            why=tracks.cut or _describe_rest(tracks) or "the list of events is empty",
            next="capture the profile again, or give the .xplane.pb beside it",
        )
    columns, left_out = sort_tracks(tracks, ours=is_own_format)
    transfers, transfer_notes = columns.transfers
    by_pytorch = _is_pytorch(tracks)
    host = _pytorch_host(source, head, columns.devices) if by_pytorch else None
    is_unknown = by_pytorch and host is None and bool(columns.devices)
    return Recording(
        source=source,
        host=(written.host if written else None) or host or _file_stem(source),
        devices=written.devices(columns.devices) if written else _named(columns.devices, head),
        lines=columns.lines,
        ops=columns.ops,
        spans=columns.spans,
        executions=columns.executions,
        markers=columns.markers,
        host_events=columns.host_events,
        host_names=columns.host_names,
        launches=columns.launches,
        transfers=transfers,
        notes=(
            *_notes(tracks, columns, left_out, ours=is_own_format),
            *transfer_notes,
            *((_NO_HOST,) if is_unknown else ()),
            *(written.notes if written else ()),
        ),
        truncated=tracks.cut is not None or (not is_own_format and tracks.complete == MOST_EVENTS),
        basis=written.basis if written else Basis.MEASURED,
        target=written.target if written else None,
        predicted_range=written.predicted_range if written else None,
        tells_host=not is_unknown,
        zero_ns=_zero_ns(head, tracks) if by_pytorch else None,
        rank=_rank(head) if by_pytorch else None,
    )


def _named(devices: Sequence[Device], head: Mapping[str, object]) -> tuple[Device, ...]:
    """Return the devices with their chips, which Kineto (PyTorch) lists beside its events.

    A process that sees some GPUs of its machine may list them by other numbers than it uses.
    """
    listed = [_fields(gpu) for gpu in _list(head.get("deviceProperties"))]
    chips = {gpu["id"]: gpu["name"] for gpu in listed if {"id", "name"} <= gpu.keys()}
    alike = next(iter(chips.values())) if len({*map(str, chips.values())}) == 1 else None
    named = ((device, chips.get(device.ordinal, alike)) for device in devices)
    return tuple(
        replace(device, chip=chip) if isinstance(chip, str) and device.kind == "gpu" else device
        for device, chip in named
    )


def _zero_ns(head: Mapping[str, object], tracks: Tracks) -> int | None:
    """Return the time since 1970 from which the times of PyTorch's trace count."""
    base = head.get("baseTimeNanoseconds")
    return base + tracks.origin_us * 1000 if isinstance(base, int) else None


def _rank(head: Mapping[str, object]) -> tuple[int, int] | None:
    told = _fields(head.get("distributedInfo"))
    rank, ranks = told.get("rank"), told.get("world_size")
    return (rank, ranks) if isinstance(rank, int) and isinstance(ranks, int) else None


def _notes(
    tracks: Tracks, columns: Columns, left_out: Sequence[str], *, ours: bool
) -> tuple[str, ...]:
    notes: list[str] = []
    if tracks.complete == MOST_EVENTS and not ours:
        notes.append(
            "cut at 1,000,000 events, the most that XLA writes to a trace.json: the latest are"
            " missing, so sums are too small; read the .xplane.pb in the same directory"
        )
    if tracks.cut:
        notes.append(f"cut off after {tracks.complete:,} events: {tracks.cut}")
    if columns.devices and ours:
        notes.append(
            "a Timeline stored as a trace, without its HLO and without the op that waits for"
            " each async op; a directory of Parquet tables stores everything"
        )
    elif columns.devices and _is_pytorch(tracks):
        notes.append(
            "recorded by PyTorch's profiler: it names no programs, and bytes and ranks only of"
            " collectives whose launches it recorded"
        )
    elif columns.devices:
        notes.append(
            "a trace.json holds no HLO: replica groups, and bytes and ranks of collectives, are"
            " known only where an event contains its instruction; the .xplane.pb has all of them"
        )
    else:
        processes = sorted({tracks.process(track) for track in tracks.rows})
        notes.append(
            f"no device process and no device ops on host threads (processes: {_some(processes)})"
        )
    if left_out:
        notes.append(f"lines without ops, steps or modules are left out: {_some(left_out)}")
    if tracks.bookkeeping:
        notes.append(
            f"{tracks.bookkeeping:,} book-keeping marks of the host's thread pools are left out"
        )
    rest = _describe_rest(tracks)
    return (*notes, rest) if rest else tuple(notes)


def _describe_rest(tracks: Tracks) -> str:
    """Describe the events that could not be read."""
    parts = [f"{count:,} events of phase {phase!r}" for phase, count in tracks.other_phases.items()]
    if tracks.unpaired:
        parts.append(f"{tracks.unpaired:,} unmatched begin or end events")
    if tracks.unreadable:
        parts.append(f"{tracks.unreadable:,} events without a usable time or thread")
    return "not read: " + ", ".join(parts) if parts else ""


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _is_pytorch(tracks: Tracks) -> bool:
    return any(kind.cat == "kernel" for kind in tracks.all_kinds())


def _pytorch_host(source: str, head: Mapping[str, object], devices: Sequence[Device]) -> str | None:
    """Return the host and process of PyTorch's trace; None if it tells neither.

    The file may be named by the host. Else a rank's number tells it where ranks use the GPUs of a
    host in order, as PyTorch's launcher places them: rank 11 of 16 uses GPU 3 of the second host's
    8. The head lists the GPUs that the process sees: of one alone, the place is unknown.
    """
    named = _BY_HANDLER.match(source.rpartition("/")[2])
    if named is not None:
        return f"{named['host']} (process {named['process']})"
    rank = _fields(head.get("distributedInfo")).get("rank")
    gpus = len(_list(head.get("deviceProperties")))
    used = {device.ordinal for device in devices if device.kind == "gpu"}
    if not isinstance(rank, int) or gpus < 2 or used != {rank % gpus}:
        return None
    return f"host {rank // gpus} (process {rank})"


def _file_stem(source: str) -> str:
    """Return the host name from the file name, such as `worker-3.trace.json.gz`."""
    name = source.rstrip("/").rpartition("/")[2]
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name or source
