"""Writes the trace beside its place and moves it there when whole."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from counterpoint import __version__
from counterpoint.core.errors import InputError, UsageError
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.perfetto.as_json import json_blocks
from counterpoint.timeline.perfetto.as_proto import proto_blocks
from counterpoint.timeline.perfetto.layout import earliest_ps, processes, tracks
from counterpoint.timeline.url import refuse_url

SUFFIXES: Final = (".json", ".json.gz", ".pftrace")
"""Endings of a trace's name, each of which is a format."""

_GZIP_LEVEL: Final = 4  # a third of level 9's time for a tenth more bytes


def write_perfetto(timeline: Timeline, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write the Timeline as a trace; the ending of its name says in which format."""
    refuse_url(path)
    path = Path(path)
    blocks = _blocks(timeline, path)
    if path.is_dir() or (path.exists() and not overwrite):
        raise InputError(
            f"{path} exists",
            why="it is a directory" if path.is_dir() else "what is there is not overwritten",
            next="choose another name" if path.is_dir() else "--force",
        )
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        try:
            _write(partial, blocks, packed=path.suffix == ".gz")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as failure:
        raise InputError(f"{path} could not be written: {failure.strerror or failure}") from None
    return path


def _write(path: Path, blocks: Iterator[bytes], *, packed: bool) -> None:
    with path.open("wb") as file:
        if packed:
            with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as stream:
                stream.writelines(blocks)
        else:
            file.writelines(blocks)


def _blocks(timeline: Timeline, path: Path) -> Iterator[bytes]:
    # Times before zero come from aligned clocks; a trace has none.
    origin_ps = min(0, earliest_ps(timeline))
    if path.name.endswith((".json", ".json.gz")):
        about = {
            "writer": f"counterpoint {__version__}",
            "inputs": timeline.inputs,
            "basis": timeline.basis,
            "hosts": [host.name for host in timeline.hosts],
            "devices": [asdict(device) for device in timeline.devices],
            "steps": timeline.step_rule,
            "notes": timeline.notes,
            "times_shifted_by_ps": -origin_ps,
        }
        return json_blocks(processes(timeline), tracks(timeline), origin_ps, about)
    if path.name.endswith(".pftrace"):
        return proto_blocks(processes(timeline), tracks(timeline), origin_ps)
    raise UsageError(
        f"{path}: not a name for a trace",
        why=f"its ending chooses the format: {', '.join(SUFFIXES)}",
    )
