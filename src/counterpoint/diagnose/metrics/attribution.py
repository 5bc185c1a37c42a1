"""Attribution of step time: every moment of a device's step belongs to exactly one state.

    compute      a kernel computes (collectives overlapped with it are hidden)
    collective   no kernel computes, a collective runs: exposed communication
    copy         neither, data is copied
    idle         nothing runs

One sweep over the starts and ends of a device's spans, so the parts add up by construction and two
overlapping kernels count once. The phase of a moment is that of the span that determined its state.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.diagnose.selection import Selection, device_slices
from counterpoint.timeline import Lane

STATES: Final = (Lane.COMPUTE, Lane.COLLECTIVE, Lane.COPY)
"""In order of precedence."""

IDLE: Final = "idle"

PHASES: Final = ("forward", "backward", "remat", "optimizer", "other")

SCHEMA: Final = {
    "device": pl.UInt16,
    "step": pl.Int32,
    "state": pl.String,
    "phase": pl.String,  # null while idle
    "hidden": pl.Boolean,  # a collective overlaps the compute
    "ps": pl.Int64,
}

Longs = NDArray[np.int64]
_NO_LANE: Final = -1


def attribute(selection: Selection, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the time per device, step, state and phase, over the selection's windows."""
    lanes, phases = _classes(selection)
    parts = [
        _sweep_device(device, windows, own, lanes, phases)
        for device, windows, own in _by_device(selection, spans)
    ]
    return pl.concat([pl.DataFrame(schema=SCHEMA), *parts])


def _by_device(
    selection: Selection, spans: pl.DataFrame
) -> Iterator[tuple[int, pl.DataFrame, pl.DataFrame]]:
    rows = device_slices(spans)
    for device, windows in device_slices(selection.windows).items():
        yield device, selection.windows[windows], spans[rows.get(device, slice(0, 0))]


def _classes(selection: Selection) -> tuple[Longs, Longs]:
    """Return lane and phase of each op as numbers; control spans contain others, with no lane."""
    ops = selection.timeline.ops
    lane = {str(state): number for number, state in enumerate(STATES)}
    phase = {name: number for number, name in enumerate(PHASES)}
    return (
        np.array([lane.get(name, _NO_LANE) for name in ops["lane"]], np.int64),
        np.array([phase.get(name or "other", len(PHASES) - 1) for name in ops["phase"]], np.int64),
    )


def _sweep_device(
    device: int, windows: pl.DataFrame, spans: pl.DataFrame, lanes: Longs, phases: Longs
) -> pl.DataFrame:
    op = spans["op"].to_numpy()
    lane = lanes[op]
    works = (lane != _NO_LANE) & (spans["dur_ps"].to_numpy() > 0)
    start = spans["start_ps"].to_numpy()[works]
    end = start + spans["dur_ps"].to_numpy()[works]
    cuts = np.concatenate([windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy()])
    times = np.concatenate([start, end, cuts])
    order = np.argsort(times, kind="stable")
    times = times[order]
    kind = np.tile(lane[works] * len(PHASES) + phases[op][works], 2)
    change = np.concatenate([np.ones(len(start), np.int8), np.full(len(end), -1, np.int8)])
    state, phase, hidden = _states(order, kind, change)
    length = np.diff(times)
    step = _steps_at(times[:-1], windows)
    kept = (length > 0) & (step >= 0)
    return _sum(device, step[kept], state[kept], phase[kept], hidden[kept], length[kept])


def _states(
    order: Longs, kind: Longs, change: NDArray[np.int8]
) -> tuple[Longs, Longs, NDArray[np.bool_]]:
    """Return state and phase of each interval between two boundaries: the first open class."""
    count = len(order) - 1
    state = np.full(count, len(STATES), np.int64)
    phase = np.full(count, len(PHASES) - 1, np.int64)
    communicates = np.zeros(count, bool)
    is_span = order < len(kind)
    safe = np.where(is_span, order, 0)
    kind_at = np.where(is_span, kind[safe], -1) if len(kind) else np.full(len(order), -1)
    change_at = np.where(is_span, change[safe], 0) if len(kind) else np.zeros(len(order), np.int8)
    for class_ in reversed(np.unique(kind)):
        is_open = np.cumsum(np.where(kind_at == class_, change_at, 0), dtype=np.int32)[:-1] > 0
        state[is_open] = class_ // len(PHASES)
        phase[is_open] = class_ % len(PHASES)
        if STATES[class_ // len(PHASES)] == Lane.COLLECTIVE:
            communicates |= is_open
    return state, phase, communicates & (state == 0)


def _steps_at(at: Longs, windows: pl.DataFrame) -> Longs:
    starts, ends = windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy()
    index = np.searchsorted(starts, at, side="right") - 1
    inside = (index >= 0) & (at < ends[np.maximum(index, 0)])
    return np.where(inside, windows["step"].to_numpy()[np.maximum(index, 0)], -1)


def _sum(
    device: int,
    step: Longs,
    state: Longs,
    phase: Longs,
    hidden: NDArray[np.bool_],
    length: Longs,
) -> pl.DataFrame:
    summed = (
        pl.DataFrame({"step": step, "state": state, "phase": phase, "hidden": hidden, "ps": length})
        .group_by("step", "state", "phase", "hidden")
        .agg(pl.col("ps").sum())
        .sort("step", "state", "phase", "hidden")
    )
    names = [str(lane) for lane in STATES] + [IDLE]
    return summed.select(
        pl.lit(device, pl.UInt16).alias("device"),
        pl.col("step").cast(pl.Int32),
        pl.col("state").replace_strict(dict(enumerate(names)), return_dtype=pl.String),
        pl.when(pl.col("state") < len(STATES))
        .then(pl.col("phase").replace_strict(dict(enumerate(PHASES)), return_dtype=pl.String))
        .alias("phase"),
        "hidden",
        "ps",
    ).select(*SCHEMA)


HOLDING_SCHEMA: Final = {
    "device": pl.UInt16,
    "step": pl.Int32,
    "op": pl.UInt32,
    "held_ps": pl.Float64,
}

_Longs = NDArray[np.int64]
_Shares = NDArray[np.float64]


def holding(selection: Selection, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the time held per device, step and op; step is null for spans before all windows.

    A moment of compute belongs to the ops that compute then, in equal parts if there are several;
    one of exposed communication to the collectives, one of exposed copying to the copies. So hidden
    ops hold nothing, and the times held by all ops add up to the busy time of the step.
    """
    lanes = _lanes(selection)
    devices = spans["device"].to_numpy()
    parts = [pl.DataFrame(schema=HOLDING_SCHEMA)]
    for device in selection.windows["device"].unique().to_list():
        first, last = np.searchsorted(devices, [device, device + 1])
        windows = selection.windows.filter(pl.col("device") == device)
        parts.append(_of_device(spans[int(first) : int(last)], windows, lanes))
    return pl.concat(parts)


def _lanes(selection: Selection) -> _Longs:
    number = {str(state): index for index, state in enumerate(STATES)}
    names = selection.timeline.ops["lane"].to_list()
    return np.array([number.get(name, _NO_LANE) for name in names], np.int64)


def _of_device(spans: pl.DataFrame, windows: pl.DataFrame, lanes: _Longs) -> pl.DataFrame:
    start = spans["start_ps"].to_numpy()
    end = start + spans["dur_ps"].to_numpy()
    lane = np.where(end > start, lanes[spans["op"].to_numpy()], _NO_LANE)
    boundaries = np.unique(
        np.concatenate([start, end, windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy()])
    )
    free = _inside(boundaries, windows)
    length = np.diff(boundaries)
    held = np.zeros(len(spans), np.float64)
    for state in range(len(STATES)):
        in_lane = lane == state
        first, last = (
            np.searchsorted(boundaries, start[in_lane]),
            np.searchsorted(boundaries, end[in_lane]),
        )
        count = _open(first, last, len(boundaries))
        share = np.where(free & (count > 0), length / np.maximum(count, 1), 0.0)
        passed: _Shares = np.concatenate([[0.0], np.cumsum(share)])
        held[in_lane] = passed[last] - passed[first]
        free &= count == 0
    return (
        spans.select("device", "step", "op")
        .with_columns(held_ps=pl.Series(held, dtype=pl.Float64))
        .group_by("device", "step", "op")
        .agg(pl.col("held_ps").sum())
        .select(pl.col(name).cast(kind) for name, kind in HOLDING_SCHEMA.items())
    )


def _inside(at: _Longs, windows: pl.DataFrame) -> NDArray[np.bool_]:
    """Return whether the interval that begins at each boundary lies in a window."""
    starts, ends = windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy()
    index = np.searchsorted(starts, at[:-1], side="right") - 1
    return (index >= 0) & (at[:-1] < ends[np.maximum(index, 0)])


def _open(first: _Longs, last: _Longs, boundaries: int) -> _Longs:
    """Return how many spans are open in the interval that begins at each boundary but the last."""
    opened = np.bincount(first, minlength=boundaries) - np.bincount(last, minlength=boundaries)
    return np.cumsum(opened)[:-1]


def self_times(spans: pl.DataFrame) -> NDArray[np.int64]:
    """Return the self time of each span in picoseconds, in the order of the frame.

    Self time is how long a span runs without the spans nested in it on the same line: loops and
    calls contain the ops of their bodies.
    """
    order = (
        spans.select("line", "start_ps", "dur_ps")
        .with_row_index("at")
        .filter(pl.col("dur_ps") > 0)
        .sort("line", "start_ps", "dur_ps", descending=[False, False, True])["at"]
        .to_numpy()
    )
    start = spans["start_ps"].to_numpy()[order]
    duration = spans["dur_ps"].to_numpy()[order]
    line = spans["line"].to_numpy()[order]
    result = np.zeros(len(spans), np.int64)
    bounds = np.flatnonzero(np.diff(line.astype(np.int64), prepend=-1, append=-1))
    for first, last in pairwise(bounds):
        rows = slice(first, last)
        result[order[rows]] = _without_children(start[rows], duration[rows])
    return result


def _without_children(start: NDArray[np.int64], duration: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return self times of one line's spans, ordered by start, longer ones first.

    A span's depth is the number of spans open when it starts. Its children are the spans one level
    deeper that start before it ends, and their durations come from a running sum per level.
    """
    end = start + duration
    if not (start[1:] < end[:-1]).any():
        return duration
    depth = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    first_after = np.searchsorted(start, end, side="left")
    own = duration.copy()
    for level in range(int(depth.max())):
        at_level = np.flatnonzero(depth == level)
        below = np.concatenate([[0], np.cumsum(np.where(depth == level + 1, duration, 0))])
        nested = below[np.maximum(first_after[at_level], at_level + 1)] - below[at_level + 1]
        own[at_level] -= nested
    return np.maximum(own, 0)
