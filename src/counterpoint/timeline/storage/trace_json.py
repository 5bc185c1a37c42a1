"""Writes a trace to a temporary file and moves it into place when complete."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Final

import numpy as np

from counterpoint import __version__
from counterpoint.core import UsageError, WriteError, refuse_url
from counterpoint.core.outputs import whole_file
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.storage.trace_layout import (
    NO_STEP,
    Label,
    Longs,
    TraceProcess,
    Track,
    earliest_ps,
    processes,
    tracks,
)
from counterpoint.timeline.storage.trace_proto import proto_blocks

_PS_PER_NS: Final = 1_000
_NS_PER_US: Final = 1_000
_AT_A_TIME: Final = 1 << 15


def json_blocks(
    processes: Iterable[TraceProcess],
    tracks: Iterable[Track],
    zero_ps: int,
    about: Mapping[str, object],
) -> Iterator[bytes]:
    """Yield the text of the trace piece by piece."""
    head = {"displayTimeUnit": "ns", "otherData": about}
    yield (_compact(head)[:-1] + ',"traceEvents":[').encode()
    separator = ""
    for process in processes:
        yield (separator + _describe(process)).encode()
        separator = ",\n"
    for track in tracks:
        yield (separator + _describe(track)).encode()
        for events in _slices(track, zero_ps):
            yield (separator + separator.join(events)).encode()
    yield b"]}\n"


def _describe(what: TraceProcess | Track) -> str:
    """Return the events that name and order a process or a thread."""
    kind, where = "process", {"pid": what.pid}
    if isinstance(what, Track):
        kind, where = "thread", {**where, "tid": what.tid}
    event = {"ph": "M", **where}
    order = where.get("tid", what.pid)
    named = {**event, "name": f"{kind}_name", "args": {"name": what.name}}
    placed = {**event, "name": f"{kind}_sort_index", "args": {"sort_index": order}}
    return f"{_compact(named)},\n{_compact(placed)}"


def _slices(track: Track, zero_ps: int) -> Iterator[list[str]]:
    """Yield the complete events of a track in batches; times are whole nanoseconds, rounded down.

    Perfetto rounds the start and the length of an event to nanoseconds separately. With picoseconds
    neighbors would then overlap, and it drops those.
    """
    texts = [_open(label) for label in track.labels]
    head = f'{{"ph":"X","pid":{track.pid},"tid":{track.tid},"ts":'
    for first in range(0, len(track.start_ps), _AT_A_TIME):
        piece = slice(first, first + _AT_A_TIME)
        start = (track.start_ps[piece] - zero_ps) // _PS_PER_NS
        length = (track.end_ps[piece] - zero_ps) // _PS_PER_NS - start
        labels: list[int] = track.label[piece].tolist()
        steps: list[int] = [NO_STEP] * len(labels)
        if track.step is not None:
            steps = track.step[piece].tolist()
        times = zip(_microseconds(start), _microseconds(length), strict=True)
        yield [
            f'{head}{at},"dur":{long},{texts[label]}{_close(texts[label], step)}'
            for (at, long), label, step in zip(times, labels, steps, strict=True)
        ]


def _microseconds(time_ns: Longs) -> list[str]:
    whole, rest = np.divmod(time_ns, _NS_PER_US)
    return [f"{us}.{ns:03d}" for us, ns in zip(whole.tolist(), rest.tolist(), strict=True)]


def _open(label: Label) -> str:
    """Return the JSON of an event without times, step and the two closing braces."""
    event = {"name": label.name, "cat": label.category, "args": dict(label.arguments)}
    return _compact(event)[1:-2]


def _close(text: str, step: int) -> str:
    if step == NO_STEP:
        return "}}"
    return f'"step":{step}}}}}' if text.endswith("{") else f',"step":{step}}}}}'


def _compact(value: Mapping[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"))


SUFFIXES: Final = (".json", ".json.gz", ".pftrace")
"""File name endings of a trace; each is a format."""

_GZIP_LEVEL: Final = 4  # a third of level 9's time for a tenth more bytes


def write_perfetto(timeline: Timeline, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write the Timeline as a trace; the ending of its name selects the format."""
    refuse_url(path)
    path = Path(path)
    blocks = _blocks(timeline, path)
    if path.is_dir() or (path.exists() and not overwrite):
        raise UsageError(
            f"{path} exists",
            why="it is a directory" if path.is_dir() else "existing files are not overwritten",
            next="choose another name" if path.is_dir() else "use --force",
        )
    try:
        with whole_file(path, overwrite=overwrite) as part:
            _write(part, blocks, packed=path.suffix == ".gz")
    except FileExistsError:
        raise UsageError(
            f"{path} exists", why="another process wrote it meanwhile", next="use --force"
        ) from None
    except OSError as failure:
        raise WriteError(path, failure) from None
    return path


def _write(path: Path, blocks: Iterator[bytes], *, packed: bool) -> None:
    with path.open("wb") as file:
        if packed:
            with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as stream:
                stream.writelines(blocks)
        else:
            file.writelines(blocks)


def _blocks(timeline: Timeline, path: Path) -> Iterator[bytes]:
    # Aligned clocks may give negative times, which a trace cannot hold.
    zero_ps = min(0, earliest_ps(timeline))
    if path.name.endswith((".json", ".json.gz")):
        about = {
            "writer": f"counterpoint {__version__}",
            "inputs": timeline.inputs,
            "basis": timeline.basis,
            "target": timeline.target,
            "predicted_range_s": timeline.predicted_range and astuple(timeline.predicted_range),
            "hosts": [host.name for host in timeline.hosts],
            "devices": [asdict(device) for device in timeline.devices],
            "steps": timeline.step_rule,
            "notes": timeline.notes,
            "times_shifted_by_ps": -zero_ps,
        }
        return json_blocks(processes(timeline), tracks(timeline), zero_ps, about)
    if path.name.endswith(".pftrace"):
        return proto_blocks(processes(timeline), tracks(timeline), zero_ps)
    raise UsageError(
        f"{path}: not a file name for a trace",
        why=f"the ending selects the format: {', '.join(SUFFIXES)}",
    )
