"""A Timeline on disk: a directory of Parquet tables, and the small rest as JSON.

Any tool that reads Parquet can use the tables (docs/concepts/timeline.md names the columns).
Written beside its place and moved there when whole, so an interruption leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import polars as pl

from counterpoint.core.basis import Basis
from counterpoint.core.errors import InputError
from counterpoint.timeline.device import Device, Host
from counterpoint.timeline.model import ProgramEntry, Timeline
from counterpoint.timeline.recording import EmbeddedProgram

FORMAT: Final = "counterpoint.timeline/1"
MANIFEST: Final = "timeline.json"
_TABLES: Final = ("ops", "spans", "runs", "steps", "host_events")
_HLO: Final = "hlo.parquet"


def is_timeline(path: Path) -> bool:
    """Whether a directory holds a stored Timeline."""
    try:
        return (path / MANIFEST).is_file()
    except OSError:
        return False  # it may not be looked into: whoever reads it says so


def write_parquet(timeline: Timeline, path: Path, *, overwrite: bool) -> Path:
    """Write a Timeline; replaces an existing one only when told to."""
    if path.exists() and not (overwrite and (is_timeline(path) or not _is_full(path))):
        raise InputError(
            f"{path} exists",
            why="what is there is not overwritten"
            + (": it is not a stored Timeline" if overwrite else ""),
            next="choose another name" + ("" if overwrite else ", or allow it with --force"),
        )
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        partial.mkdir(parents=True)
        _write(timeline, partial)
        if path.exists():
            shutil.rmtree(path)
        partial.rename(path)
    except OSError as failure:
        raise InputError(f"{path} could not be written: {failure.strerror}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return path


def _is_full(path: Path) -> bool:
    return not path.is_dir() or any(path.iterdir())


def _write(timeline: Timeline, into: Path) -> None:
    for name in _TABLES:
        table: pl.DataFrame = getattr(timeline, name)
        table.write_parquet(into / f"{name}.parquet", compression="zstd")
    hlo = [
        {"program": index, "host": host, "name": variant.name, "proto": variant.load()}
        for index, entry in enumerate(timeline.programs)
        for host, variant in entry.variants.items()
    ]
    schema = {"program": pl.Int64, "host": pl.Int64, "name": pl.String, "proto": pl.Binary}
    pl.DataFrame(hlo, schema=schema).write_parquet(into / _HLO, compression="zstd")
    manifest = {
        "format": FORMAT,
        "basis": timeline.basis,
        "inputs": timeline.inputs,
        "hosts": [asdict(host) for host in timeline.hosts],
        "devices": [asdict(device) for device in timeline.devices],
        "lines": timeline.lines,
        "programs": [
            {"name": entry.name, "fingerprints": entry.fingerprints} for entry in timeline.programs
        ],
        "step_rule": timeline.step_rule,
        "step_program": timeline.step_program,
        "host_names": timeline.host_names,
        "environment": dict(timeline.environment),
        "notes": timeline.notes,
        "truncated": timeline.truncated,
    }
    (into / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def read_parquet(path: Path) -> Timeline:
    """Open a stored Timeline; the HLO stays on disk until somebody asks for it."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        return _read(path, manifest)
    except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError) as failure:
        raise InputError(
            f"{path}: not a whole stored Timeline: {failure}",
            next="write it again with `counterpoint convert PROFILE OUT.parquet`",
        ) from None


def _read(path: Path, manifest: dict[str, Any]) -> Timeline:
    if manifest["format"] != FORMAT:
        raise ValueError(f"its format is {manifest['format']!r}, this version reads {FORMAT!r}")
    tables = {name: pl.read_parquet(path / f"{name}.parquet") for name in _TABLES}
    return Timeline(
        basis=Basis(manifest["basis"]),
        inputs=tuple(manifest["inputs"]),
        hosts=tuple(Host(**host) for host in manifest["hosts"]),
        devices=tuple(Device(**device) for device in manifest["devices"]),
        lines=tuple(manifest["lines"]),
        programs=_programs(path / _HLO, manifest["programs"]),
        step_rule=manifest["step_rule"],
        step_program=manifest["step_program"],
        host_names=tuple(manifest["host_names"]),
        environment=manifest["environment"],
        notes=tuple(manifest["notes"]),
        truncated=manifest["truncated"],
        **tables,
    )


def _programs(path: Path, entries: list[dict[str, Any]]) -> tuple[ProgramEntry, ...]:
    variants: list[dict[int, EmbeddedProgram]] = [{} for _ in entries]
    for program, host, name in pl.read_parquet(path, columns=["program", "host", "name"]).rows():
        variants[program][host] = EmbeddedProgram(name, _loader(path, program, host))
    return tuple(
        ProgramEntry(entry["name"], tuple(entry["fingerprints"]), own)
        for entry, own in zip(entries, variants, strict=True)
    )


def _loader(path: Path, program: int, host: int) -> Callable[[], bytes]:
    def load() -> bytes:
        mine = (pl.col("program") == program) & (pl.col("host") == host)
        return pl.scan_parquet(path).filter(mine).select("proto").collect().item()

    return load
