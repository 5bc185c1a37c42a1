"""The projected NVTX ranges of a bundle, in the columns of either version, and their nesting."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from counterpoint.core import InputError
from counterpoint.timeline.nsys.nesting import OUTSIDE, Longs

_OLD: Final = ("Name", "Projected Start", "Projected Duration", "RangeId", "ParentId", "PID", "TID")
_NEW: Final = ("Text", "Start", "End", "Range ID", "Parent ID", "PID", "TID")


def normalize_ranges(trace: pl.DataFrame, source: str) -> pl.DataFrame:
    """Return columns id, parent, text, start, end (on the GPU), pid, tid; drop unnamed ranges.

    `trace` is the output of `nsys recipe nvtx_gpu_proj_trace`. A range's projection lasts from the
    start of the first GPU operation launched in it to the end of the last. Layouts by Nsight
    Systems release:

        to 2024.4   Name, Projected Start, Projected Duration, RangeId, ParentId, PID, TID
        2024.5 on   Text, Start, End (projected), Range ID, Parent ID, PID, TID; names lack domains
        2026.1 on   the same with Domain
    """
    for layout, select in ((_OLD, _from_old), (_NEW, _from_new)):
        if set(layout) <= set(trace.columns):
            try:
                ranges = select(trace)
            except pl.exceptions.PolarsError as failure:
                raise _odd(trace, source, str(failure).partition("\n")[0]) from None
            needed = pl.col("id", "text", "start", "end", "pid", "tid")
            return ranges.filter(pl.all_horizontal(needed.is_not_null()))
    raise _odd(trace, source, f"its columns are {', '.join(trace.columns[:12])}")


def _odd(trace: pl.DataFrame, source: str, why: str) -> InputError:
    return InputError(
        f"{source}: trace.parquet ({len(trace):,} rows) has an unknown layout",
        why=f"{why}; bundles of nsys-jax with Nsight Systems 2024.4 to 2026.1 are read",
        next="nsys export --type sqlite FILE.nsys-rep",
    )


def _from_old(trace: pl.DataFrame) -> pl.DataFrame:
    start = pl.col("Projected Start").cast(pl.Int64)
    return trace.select(
        id=_whole("RangeId"),
        parent=_whole("ParentId"),
        text=pl.col("Name").cast(pl.String),
        start=start,
        end=start + pl.col("Projected Duration").cast(pl.Int64),
        pid=_whole("PID"),
        tid=_whole("TID"),
    )


def _from_new(trace: pl.DataFrame) -> pl.DataFrame:
    text = pl.col("Text").cast(pl.String)
    if "Domain" in trace.columns:
        domain = pl.col("Domain").cast(pl.String)
        text = pl.when(domain.is_null() | (domain == "")).then(text).otherwise(domain + ":" + text)
    return trace.select(
        id=_whole("Range ID"),
        parent=_whole("Parent ID"),
        text=text,
        start=pl.col("Start").cast(pl.Int64),
        end=pl.col("End").cast(pl.Int64),
        pid=_whole("PID"),
        tid=_whole("TID"),
    )


def _whole(name: str) -> pl.Expr:
    """Convert ids, which pandas writes as floats if any of them is missing."""
    return pl.col(name).cast(pl.Float64).fill_nan(None).cast(pl.Int64)


def parents(ranges: pl.DataFrame) -> tuple[Longs, int]:
    """Return the row of each range's parent or OUTSIDE, and the number of ambiguous ids.

    Nsight Systems 2024.5 and 2024.6 give ranges around CUDA graphs the same id: their children are
    then unknown, so such an id is nobody's parent.
    """
    ids = ranges["id"].to_numpy()
    distinct, first, count = np.unique(ids, return_index=True, return_counts=True)
    if not len(distinct):
        return np.zeros(0, np.int64), 0
    wanted = ranges["parent"].fill_null(-1).to_numpy()
    at = np.minimum(np.searchsorted(distinct, wanted), len(distinct) - 1)
    is_known = (
        (distinct[at] == wanted) & (count[at] == 1) & ranges["parent"].is_not_null().to_numpy()
    )
    rows = np.where(is_known, first[at], OUTSIDE)
    return _without_circles(rows), int((count > 1).sum())


def _without_circles(parent: Longs) -> Longs:
    """Remove the parents of ranges that a damaged file makes their own ancestors."""
    root = parent.copy()
    for _ in range(max(len(parent), 1).bit_length() + 1):
        root = np.where(root == OUTSIDE, OUTSIDE, root[root])
    return np.where(root == OUTSIDE, parent, OUTSIDE)
