"""Which op holds the step: every moment of a device's busy time is some op's, and of no other.

A moment that `attribution` gives to compute belongs to the ops that compute then, in equal parts
where several do; one of exposed communication to the collectives, one of exposed copying to the
copies. So what is hidden holds nothing, and what all ops hold adds up to the busy time of the step.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.diagnose.metrics.attribution import STATES
from counterpoint.diagnose.selection import Selection

SCHEMA: Final = {"device": pl.UInt16, "step": pl.Int32, "op": pl.UInt32, "held_ps": pl.Float64}

_Longs = NDArray[np.int64]
_Shares = NDArray[np.float64]
_NO_LANE: Final = -1


def holding(selection: Selection, spans: pl.DataFrame) -> pl.DataFrame:
    """Time held per device, step and op; step is null for what began before the first window."""
    lanes = _lanes(selection)
    devices = spans["device"].to_numpy()
    parts = [pl.DataFrame(schema=SCHEMA)]
    for device in selection.windows["device"].unique().to_list():
        first, last = np.searchsorted(devices, [device, device + 1])
        windows = selection.windows.filter(pl.col("device") == device)
        parts.append(_of_device(spans[int(first) : int(last)], windows, lanes))
    return pl.concat(parts)


def _lanes(selection: Selection) -> _Longs:
    number = {str(state): at for at, state in enumerate(STATES)}
    names = selection.timeline.ops["lane"].to_list()
    return np.array([number.get(name, _NO_LANE) for name in names], np.int64)


def _of_device(spans: pl.DataFrame, windows: pl.DataFrame, lanes: _Longs) -> pl.DataFrame:
    start = spans["start_ps"].to_numpy()
    end = start + spans["dur_ps"].to_numpy()
    lane = np.where(end > start, lanes[spans["op"].to_numpy()], _NO_LANE)
    at = np.unique(
        np.concatenate([start, end, windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy()])
    )
    free = _inside(at, windows)
    length = np.diff(at)
    held = np.zeros(len(spans), np.float64)
    for state in range(len(STATES)):
        mine = lane == state
        first, last = np.searchsorted(at, start[mine]), np.searchsorted(at, end[mine])
        count = _open(first, last, len(at))
        share = np.where(free & (count > 0), length / np.maximum(count, 1), 0.0)
        passed: _Shares = np.concatenate([[0.0], np.cumsum(share)])
        held[mine] = passed[last] - passed[first]
        free &= count == 0
    return (
        spans.select("device", "step", "op")
        .with_columns(held_ps=pl.Series(held, dtype=pl.Float64))
        .group_by("device", "step", "op")
        .agg(pl.col("held_ps").sum())
        .select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
    )


def _inside(at: _Longs, windows: pl.DataFrame) -> NDArray[np.bool_]:
    """Whether the stretch that begins at each boundary lies in a window."""
    starts, ends = windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy()
    index = np.searchsorted(starts, at[:-1], side="right") - 1
    return (index >= 0) & (at[:-1] < ends[np.maximum(index, 0)])


def _open(first: _Longs, last: _Longs, boundaries: int) -> _Longs:
    """How many spans are open in the stretch that begins at each boundary but the last."""
    opened = np.bincount(first, minlength=boundaries) - np.bincount(last, minlength=boundaries)
    return np.cumsum(opened)[:-1]
