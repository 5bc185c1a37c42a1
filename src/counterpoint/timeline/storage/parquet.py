"""A Timeline on disk: a directory of Parquet tables, and the remaining data as JSON.

Any tool that reads Parquet can use the tables (docs/concepts/timeline.md names the columns). They
are written to a temporary directory and moved into place when complete, so an interruption leaves
nothing behind.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any, Final, cast

import polars as pl

from counterpoint.core import Basis, InputError, Range, parse_json, refuse_url
from counterpoint.core.arguments import Retry
from counterpoint.timeline.model import (
    HOST_EVENTS,
    MEMORY,
    OPS,
    PRICED,
    RUNS,
    SPANS,
    STEPS,
    TRANSFERS,
    ChosenSteps,
    Device,
    EmbeddedProgram,
    Host,
    ProgramEntry,
    Schema,
    Timeline,
)

FORMAT: Final = "counterpoint.timeline/1"
MANIFEST: Final = "timeline.json"
_TABLES: Final[dict[str, Schema]] = {
    "ops": {**OPS, **PRICED},
    "spans": SPANS,
    "runs": RUNS,
    "steps": STEPS,
    "host_events": HOST_EVENTS,
    "transfers": TRANSFERS,
    "memory": MEMORY,
}
_ROW: Final = "row"
_NUMBERED: Final = ("ops", "runs")
"""Tables that others refer to by row number: on disk they have it as a column, for joins in SQL."""

_LATER: Final = {"steps": ("whole",), "ops": tuple(PRICED)}
"""Columns that some Timelines lack.

Those of earlier versions also lack the tables of `_LATER_TABLES`, and measured ones the price
columns.
"""
_LATER_TABLES: Final = ("transfers", "memory")

_HLO: Final = "hlo.parquet"
_VARIANTS: Final[Schema] = {"program": pl.Int64, "host": pl.Int64, "name": pl.String}


_REFERENCES: Final = (
    ("spans", "op", "ops"),
    ("spans", "run", "runs"),
    ("spans", "device", "devices"),
    ("spans", "line", "lines"),
    ("ops", "program", "programs"),
    ("runs", "program", "programs"),
    ("runs", "device", "devices"),
    ("steps", "device", "devices"),
    ("host_events", "name", "host_names"),
    ("host_events", "host", "hosts"),
    ("transfers", "host", "hosts"),
    ("transfers", "device", "devices"),
    ("transfers", "line", "lines"),
    ("memory", "device", "devices"),
)
"""Columns of row numbers, and the tables they refer to."""


def is_timeline(path: Path) -> bool:
    """Return whether a directory holds a stored Timeline."""
    try:
        return (path / MANIFEST).is_file()
    except OSError:
        return False  # not readable: its reader reports that


def write_parquet(timeline: Timeline, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a Timeline as a directory of Parquet tables; `read` opens it again.

    An existing Timeline is replaced only with `overwrite`.
    """
    path = Path(path)
    refuse_url(path)
    if path.exists() and not (overwrite and (is_timeline(path) or not _is_full(path))):
        raise InputError(
            f"{path} exists",
            why="it is not overwritten" + (": it is not a stored Timeline" if overwrite else ""),
            next="choose another name" if overwrite else Retry({"force": True}),
        )
    place = path.resolve() if path.is_symlink() else path  # keep a symbolic link
    partial = place.with_name(f".{place.name}.partial-{os.getpid()}")
    try:
        partial.mkdir(parents=True)
        _write(timeline, partial)
        if place.exists():
            shutil.rmtree(place)
        partial.rename(place)
    except (OSError, pl.exceptions.PolarsError) as failure:
        raise InputError(f"{path} could not be written: {_reason(failure)}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return path


def _reason(failure: Exception) -> str:
    """Return the reason of a failure, without the query plan that polars appends."""
    text = getattr(failure, "strerror", None) or str(failure)
    return next(iter(text.strip().splitlines()), type(failure).__name__)


def _is_full(path: Path) -> bool:
    return not path.is_dir() or any(path.iterdir())


def _write(timeline: Timeline, into: Path) -> None:
    for name in _TABLES:
        table: pl.DataFrame = getattr(timeline, name)
        if name in _NUMBERED:
            table = table.with_row_index(_ROW)
        table.write_parquet(into / f"{name}.parquet", compression="zstd")
    hlo = [
        {"program": index, "host": host, "name": variant.name, "proto": variant.load()}
        for index, entry in enumerate(timeline.programs)
        for host, variant in entry.variants.items()
    ]
    schema = {**_VARIANTS, "proto": pl.Binary}
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
        "target": timeline.target,
        "predicted_range_s": _bounds(timeline.predicted_range),
        "chosen": None if timeline.chosen is None else asdict(timeline.chosen),
    }
    (into / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _bounds(range_s: Range | None) -> tuple[float, float] | None:
    return None if range_s is None else astuple(range_s)


def read_parquet(path: str | Path) -> Timeline:
    """Open a stored Timeline; the HLO stays on disk until it is needed."""
    path = Path(path)
    try:
        return _read(path, _manifest(path))
    except KeyError as lacking:
        reason = f"{MANIFEST} lacks {lacking}"
    except (OSError, ValueError, TypeError, AttributeError, IndexError) as failure:
        reason = _reason(failure)
    raise _not_whole(path, reason)


def _not_whole(path: Path, reason: str) -> InputError:
    return InputError(
        f"{path}: not a complete stored Timeline: {reason}",
        next="write it again with `counterpoint convert`",
    )


def _manifest(path: Path) -> dict[str, Any]:
    content: Any = parse_json((path / MANIFEST).read_text(encoding="utf-8"))
    if not isinstance(content, dict) or "format" not in content:
        raise ValueError(f"{MANIFEST} is not a Timeline's manifest: it has no format")
    return cast("dict[str, Any]", content)


def _table(path: Path, schema: Schema, later: Sequence[str] = ()) -> pl.DataFrame:
    """Read the schema's columns and check their types; the `later` ones may be missing."""
    try:
        found = pl.read_parquet_schema(path)
        schema = {name: kind for name, kind in schema.items() if name in found or name not in later}
        for name, kind in schema.items():
            if name not in found:
                raise ValueError(f"{path.name} has no column {name}")
            if found[name] != kind:
                raise ValueError(f"{path.name}: column {name} is {found[name]}, not {kind()}")
        return pl.read_parquet(path, columns=list(schema))
    except pl.exceptions.PolarsError as failure:
        raise ValueError(f"{path.name}: {_reason(failure)}") from None


def _read(path: Path, manifest: dict[str, Any]) -> Timeline:
    if manifest["format"] != FORMAT:
        raise ValueError(f"its format is {manifest['format']!r}, this version reads {FORMAT!r}")
    tables = {
        name: _table(path / f"{name}.parquet", kinds, _LATER.get(name, ()))
        for name, kinds in _TABLES.items()
        if name not in _LATER_TABLES or (path / f"{name}.parquet").exists()
    }
    _check_references(tables, manifest)
    if "whole" not in tables["steps"].columns:
        tables["steps"] = _with_whole(tables["steps"], Basis(manifest["basis"]))
    basis, hosts = Basis(manifest["basis"]), tuple(Host(**host) for host in manifest["hosts"])
    environment: dict[str, str] = dict(manifest["environment"])
    target, bounds = manifest.get("target"), manifest.get("predicted_range_s")
    if basis is Basis.PREDICTED and "target" not in manifest:
        # Earlier versions stored both elsewhere.
        target = hosts[0].target
        bounds = [float(bound) for bound in environment.pop("prediction_range_s", "").split()]
    return Timeline(
        basis=basis,
        # A prediction has no profile to name: it was simulated.
        inputs=(str(path),) if basis is Basis.PREDICTED else (*manifest["inputs"],),
        hosts=hosts,
        devices=tuple(Device(**device) for device in manifest["devices"]),
        lines=tuple(manifest["lines"]),
        programs=_programs(path / _HLO, manifest["programs"]),
        step_rule=manifest["step_rule"],
        step_program=manifest["step_program"],
        host_names=tuple(manifest["host_names"]),
        environment=environment,
        notes=tuple(manifest["notes"]),
        truncated=manifest["truncated"],
        target=target,
        predicted_range=Range(*bounds) if bounds else None,
        chosen=ChosenSteps(**chosen) if (chosen := manifest.get("chosen")) else None,
        **tables,
    )


def _with_whole(steps: pl.DataFrame, basis: Basis) -> pl.DataFrame:
    """Add `whole`: true for any predicted step, and for a profile's step if another follows."""
    follows = pl.col("start_ps").rank("dense") < pl.col("start_ps").n_unique()
    whole = pl.lit(value=True) if basis is Basis.PREDICTED else follows.over("device")
    seen = steps.with_columns(whole=whole).with_columns(pl.col("whole").all().over("step"))
    return seen.with_columns(steady=pl.col("steady") & pl.col("whole")).select(*STEPS)


def _check_references(tables: dict[str, pl.DataFrame], manifest: dict[str, Any]) -> None:
    """Check that row numbers exist: tables of two Timelines may have the same columns."""
    rows = {name: len(table) for name, table in tables.items()}
    rows |= {
        name: len(manifest[name])
        for name in ("devices", "lines", "programs", "hosts", "host_names")
    }
    for table, column, target in _REFERENCES:
        if table not in tables:
            continue
        highest = tables[table][column].max()
        if isinstance(highest, int) and highest >= rows[target]:
            raise ValueError(
                f"{table}.parquet points to row {highest} of {target}, which has {rows[target]}"
            )


def _programs(path: Path, entries: list[dict[str, Any]]) -> tuple[ProgramEntry, ...]:
    variants: list[dict[int, EmbeddedProgram]] = [{} for _ in entries]
    for program, host, name in _table(path, _VARIANTS).rows():
        variants[program][host] = EmbeddedProgram(name, _loader(path, program, host))
    return tuple(
        ProgramEntry(entry["name"], tuple(entry["fingerprints"]), own)
        for entry, own in zip(entries, variants, strict=True)
    )


def _loader(path: Path, program: int, host: int) -> Callable[[], bytes]:
    def load() -> bytes:
        own_row = (pl.col("program") == program) & (pl.col("host") == host)
        try:
            return pl.scan_parquet(path).filter(own_row).select("proto").collect().item()
        except (OSError, pl.exceptions.PolarsError) as failure:
            raise _not_whole(path.parent, f"{path.name}: {_reason(failure)}") from None

    return load
