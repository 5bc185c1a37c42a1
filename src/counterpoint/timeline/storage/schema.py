"""What a stored Timeline must hold: the types of its manifest, and the values of its tables.

All of it is checked when the Timeline is opened, so that nothing behind has to doubt it. Each error
names the file and the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal

import msgspec
import polars as pl

from counterpoint.core import Basis
from counterpoint.timeline.model import Action, ChosenSteps, Device, Host, Lane

FORMAT: Final = "counterpoint.timeline/1"


class StoredProgram(msgspec.Struct):
    """A program in the manifest; its HLO is in a table."""

    name: str
    fingerprints: tuple[str, ...]


class TimelineManifest(msgspec.Struct, kw_only=True):
    """`timeline.json`: all of a Timeline that is not a table."""

    format: Literal["counterpoint.timeline/1"]
    basis: Basis
    inputs: tuple[str, ...]
    hosts: tuple[Host, ...]
    devices: tuple[Device, ...]
    lines: tuple[str, ...]
    programs: tuple[StoredProgram, ...]
    step_rule: str
    step_program: int | None
    host_names: tuple[str, ...]
    environment: dict[str, str]
    notes: tuple[str, ...]
    truncated: bool
    target: str | msgspec.UnsetType | None = msgspec.UNSET  # earlier versions lack it
    predicted_range_s: tuple[float, float] | None = None
    chosen: ChosenSteps | None = None


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
    ("host_events", "line", "lines"),
    ("transfers", "host", "hosts"),
    ("transfers", "device", "devices"),
    ("transfers", "line", "lines"),
    ("memory", "device", "devices"),
)
"""Columns of row numbers, and the tables they refer to."""

_MAY_BE_NULL: Final[Mapping[str, tuple[str, ...]]] = {
    "spans": ("run",),
    "runs": ("step", "launched_ps"),
    "steps": (),
    "host_events": (),
    "transfers": ("device", "name", "bytes", "latency_ps", "peer"),
    "memory": ("limit_bytes", "peak_bytes"),
}
_NEVER_NULL: Final = ("name", "lane", "async_window")
"""Columns of `ops` that are never null; nearly all others may be."""

_WORDS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("ops", "lane"): frozenset(Lane),
    ("transfers", "action"): frozenset(Action),
}
_LATEST_PS: Final = 1 << 60  # 13 days
_TIMES: Final = ("start_ps", "end_ps", "launched_ps")


def check_manifest(manifest: TimelineManifest) -> None:
    """Raise a ValueError for a manifest whose parts contradict each other."""
    if not manifest.hosts:
        raise ValueError("timeline.json: hosts is empty")
    for number, device in enumerate(manifest.devices):
        if not 0 <= device.host < len(manifest.hosts):
            raise ValueError(f"timeline.json: devices[{number}].host is {device.host}, of no host")
        for field in ("peak_flops", "peak_bytes"):
            peak: float | None = getattr(device, field)
            if peak is not None and not 0 < peak < math.inf:
                raise ValueError(f"timeline.json: devices[{number}].{field} is {peak}")
    program = manifest.step_program
    if program is not None and not 0 <= program < len(manifest.programs):
        raise ValueError(f"timeline.json: step_program is {program}, of no program")
    if not all(0 <= bound < math.inf for bound in manifest.predicted_range_s or ()):
        raise ValueError(f"timeline.json: predicted_range_s is {manifest.predicted_range_s}")


def check_tables(tables: Mapping[str, pl.DataFrame], manifest: TimelineManifest) -> None:
    """Raise a ValueError for values that no Timeline has.

    Row numbers are checked, too: tables of two Timelines may have the same columns.
    """
    for name, table in tables.items():
        for column in table.columns:
            _check_column(name, table[column])
        if "end_ps" in table.columns and (table["end_ps"] < table["start_ps"]).any():
            raise ValueError(f"{name}.parquet: end_ps is before start_ps")
    rows = {name: len(table) for name, table in tables.items()}
    lists = ("devices", "lines", "programs", "hosts", "host_names")
    rows |= {name: len(getattr(manifest, name)) for name in lists}
    for table, column, target in _REFERENCES:
        if table not in tables:
            continue
        highest = tables[table][column].max()
        if isinstance(highest, int) and highest >= rows[target]:
            raise ValueError(
                f"{table}.parquet points to row {highest} of {target}, which has {rows[target]}"
            )


def _check_column(table: str, column: pl.Series) -> None:
    where = f"{table}.parquet: column {column.name}"
    nullable = _MAY_BE_NULL.get(table)
    never = column.name in _NEVER_NULL if nullable is None else column.name not in nullable
    if never and column.null_count():
        raise ValueError(f"{where} has nulls")
    if column.dtype == pl.Int64 and len(column):
        least = -_LATEST_PS if column.name in _TIMES else 0
        _check_range(where, column, least, _LATEST_PS)
    elif column.dtype == pl.Float64 and not column.fill_null(0.0).is_finite().all():
        raise ValueError(f"{where} has numbers that are not finite")
    words = _WORDS.get((table, column.name))
    if words and (unknown := set(column.unique().drop_nulls()) - words):
        raise ValueError(f"{where} has {min(unknown)!r}, not one of {', '.join(sorted(words))}")


def _check_range(where: str, column: pl.Series, least: int, most: int) -> None:
    for bound in (column.min(), column.max()):
        if isinstance(bound, int) and not least <= bound <= most:
            raise ValueError(f"{where} has {bound}, which is not from {least} to {most}")
