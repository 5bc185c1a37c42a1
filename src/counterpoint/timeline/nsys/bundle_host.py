"""The ranges of a host in an nsys-jax bundle."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.core.unpacking import unpack
from counterpoint.timeline.nsys.archive import Archive
from counterpoint.timeline.nsys.target import intern

HOST_TRACE: Final = "report_nvtx_pushpop_trace"

_START, _END, _NAME, _THREAD = "Start (ns)", "End (ns)", "Name", "TID"
_COLUMNS: Final = {_START: pl.Int64, _END: pl.Int64, _NAME: pl.String, _THREAD: pl.Int64}


@dataclass(frozen=True, slots=True, eq=False)
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
