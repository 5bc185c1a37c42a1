"""A Timeline on disk: a directory of Parquet tables, and the remaining data as JSON.

Any tool that reads Parquet can use the tables (docs/concepts/timeline.md names the columns). They
are written to a temporary directory and moved into place when complete, so an interruption leaves
nothing behind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import polars as pl

from counterpoint.core import (
    Basis,
    InputError,
    Range,
    UsageError,
    WriteError,
    parse_json,
    refuse_url,
)
from counterpoint.core.records import RecordError, from_plain
from counterpoint.timeline.model import (
    HOST_EVENTS,
    MEMORY,
    OPS,
    PRICED,
    RUNS,
    SPANS,
    STEPS,
    TRANSFERS,
    EmbeddedProgram,
    ProgramEntry,
    Schema,
    Timeline,
)
from counterpoint.timeline.storage.schema import (
    FORMAT,
    TimelineManifest,
    check_manifest,
    check_tables,
)

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
_POLARS: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
_ROW: Final = "row"
_NUMBERED: Final = ("ops", "runs")
"""Tables that others refer to by row number: on disk they have it as a column, for joins in SQL."""

_LATER: Final = {"steps": ("whole",), "runs": ("launched_ps",), "ops": tuple(PRICED)}
"""Columns that some Timelines lack.

Those of earlier versions also lack the tables of `_LATER_TABLES`, and measured ones the price
columns.
"""
_LATER_TABLES: Final = ("transfers", "memory")

_HLO: Final = "hlo.parquet"
_VARIANTS: Final[Schema] = {"program": pl.Int64, "host": pl.Int64, "name": pl.String}


def is_timeline(path: Path) -> bool:
    """Return whether a directory holds a stored Timeline."""
    try:
        return (path / MANIFEST).is_file()
    except OSError:
        return False  # not readable: its reader reports that


def may_replace(path: Path) -> bool:
    """Return whether a Timeline may take the place of what is there: another one, or nothing."""
    return is_timeline(path) or not _is_full(path)


def write_parquet(timeline: Timeline, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a Timeline as a directory of Parquet tables; `read` opens it again.

    An existing Timeline is replaced only with `overwrite`.
    """
    path = Path(path)
    refuse_url(path)
    if path.exists() and not (overwrite and may_replace(path)):
        raise UsageError(
            f"{path} exists",
            why="it is not overwritten" + (": it is not a stored Timeline" if overwrite else ""),
            next="choose another name" if overwrite else "use --force",
        )
    from counterpoint.core.outputs import whole_directory

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_directory(path, overwrite=overwrite) as part:
            _write(timeline, part)
    except FileExistsError:
        raise UsageError(
            f"{path} exists", why="another process wrote it meanwhile", next="use --force"
        ) from None
    except (OSError, pl.exceptions.PolarsError) as failure:
        raise WriteError(path, failure) from None
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
    except (OSError, ValueError) as failure:
        reason = _reason(failure)
    raise _not_whole(path, reason)


def _not_whole(path: Path, reason: str) -> InputError:
    return InputError(
        f"{path}: not a complete stored Timeline: {reason}",
        next="write it again with `counterpoint convert`",
    )


def _manifest(path: Path) -> TimelineManifest:
    content: Any = parse_json((path / MANIFEST).read_text(encoding="utf-8"))
    if not isinstance(content, dict) or "format" not in content:
        raise ValueError(f"{MANIFEST} is not a Timeline's manifest: it has no format")
    fields = cast("dict[str, object]", content)
    if fields["format"] != FORMAT:
        raise ValueError(f"its format is {fields['format']!r}, this version reads {FORMAT!r}")
    try:
        manifest = from_plain(TimelineManifest, fields)
    except RecordError as misfit:
        raise ValueError(f"{MANIFEST}: {misfit}") from None
    check_manifest(manifest)
    return manifest


def _table(path: Path, schema: Schema, later: Sequence[str] = ()) -> pl.DataFrame:
    """Read the schema's columns and check their types; the `later` ones may be missing."""
    try:
        stored = pl.read_parquet_schema(path)
        schema = {
            name: kind for name, kind in schema.items() if name in stored or name not in later
        }
        for name, kind in schema.items():
            if name not in stored:
                raise ValueError(f"{path.name} has no column {name}")
            if stored[name] != kind:
                raise ValueError(f"{path.name}: column {name} is {stored[name]}, not {kind()}")
        return pl.read_parquet(path, columns=list(schema))
    except _POLARS as failure:
        raise ValueError(f"{path.name}: {_reason(failure)}") from None


def _read(path: Path, manifest: TimelineManifest) -> Timeline:
    tables = {
        name: _table(path / f"{name}.parquet", kinds, _LATER.get(name, ()))
        for name, kinds in _TABLES.items()
        if name not in _LATER_TABLES or (path / f"{name}.parquet").exists()
    }
    check_tables(tables, manifest)
    if "whole" not in tables["steps"].columns:
        tables["steps"] = _with_whole(tables["steps"], manifest.basis)
    if "launched_ps" not in tables["runs"].columns:
        tables["runs"] = tables["runs"].with_columns(launched_ps=pl.lit(None, pl.Int64))
    predicted = manifest.basis is Basis.PREDICTED
    environment, target, bounds = manifest.environment, manifest.target, manifest.predicted_range_s
    if predicted and target is msgspec.UNSET:
        # Earlier versions stored both elsewhere.
        target = manifest.hosts[0].target
        bounds = _old_bounds(environment.pop("prediction_range_s", ""))
    return Timeline(
        basis=manifest.basis,
        # A prediction has no profile to name: it was simulated.
        inputs=(str(path),) if predicted else manifest.inputs,
        hosts=manifest.hosts,
        devices=manifest.devices,
        lines=manifest.lines,
        programs=_programs(path / _HLO, manifest),
        step_rule=manifest.step_rule,
        step_program=manifest.step_program,
        host_names=manifest.host_names,
        environment=environment,
        notes=manifest.notes,
        truncated=manifest.truncated,
        target=None if target is msgspec.UNSET else target,
        predicted_range=Range(*bounds) if bounds else None,
        chosen=manifest.chosen,
        **tables,
    )


def _old_bounds(text: str) -> tuple[float, float] | None:
    match [float(bound) for bound in text.split()]:
        case [low, high]:
            return low, high
        case _:
            return None


def _with_whole(steps: pl.DataFrame, basis: Basis) -> pl.DataFrame:
    """Add `whole`: true for any predicted step, and for a profile's step if another follows."""
    follows = pl.col("start_ps").rank("dense") < pl.col("start_ps").n_unique()
    whole = pl.lit(value=True) if basis is Basis.PREDICTED else follows.over("device")
    seen = steps.with_columns(whole=whole).with_columns(pl.col("whole").all().over("step"))
    return seen.with_columns(steady=pl.col("steady") & pl.col("whole")).select(*STEPS)


def _programs(path: Path, manifest: TimelineManifest) -> tuple[ProgramEntry, ...]:
    variants: list[dict[int, EmbeddedProgram]] = [{} for _ in manifest.programs]
    for row in _table(path, _VARIANTS).rows():
        program, host, name = row
        if (
            None in row
            or not 0 <= program < len(variants)
            or not 0 <= host < len(manifest.hosts)
            or host in variants[program]
        ):
            raise ValueError(
                f"{path.name}: program {program} of host {host} does not exist, or twice"
            )
        variants[program][host] = EmbeddedProgram(name, _loader(path, program, host))
    return tuple(
        ProgramEntry(entry.name, entry.fingerprints, own)
        for entry, own in zip(manifest.programs, variants, strict=True)
    )


def _loader(path: Path, program: int, host: int) -> Callable[[], bytes]:
    def load() -> bytes:
        own_row = (pl.col("program") == program) & (pl.col("host") == host)
        try:
            proto = pl.scan_parquet(path).filter(own_row).select("proto").collect().item()
        except (OSError, *_POLARS) as failure:
            raise _not_whole(path.parent, f"{path.name}: {_reason(failure)}") from None
        if not isinstance(proto, bytes):
            raise _not_whole(path.parent, f"{path.name}: program {program} has no HLO")
        return proto

    return load
