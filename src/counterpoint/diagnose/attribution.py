"""Attribution of step time: every moment of a device's step belongs to exactly one state.

    compute      a kernel computes (collectives overlapped with it are hidden)
    collective   no kernel computes, a collective runs: exposed communication
    copy         neither, data is copied
    idle         nothing runs, or only Python of the host that the program calls

One sweep over the starts and ends of a device's spans, so the parts add up by construction and two
overlapping kernels count once. The phase of a moment is that of the span that determined its state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core import Basis
from counterpoint.core.columns import values_of
from counterpoint.core.threads import on_threads
from counterpoint.diagnose.callback_ops import callback_ops
from counterpoint.diagnose.selection import Selection, device_slices
from counterpoint.timeline.model import Lane

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
_NO_CLASS: Final = -1

HOLDING_SCHEMA: Final = {
    "device": pl.UInt16,
    "step": pl.Int32,
    "op": pl.UInt32,
    "held_ps": pl.Float64,
}


def attribute(selection: Selection, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the time per device, step, state and phase, over the selection's windows."""
    ops = selection.timeline.ops
    lanes, phase = _lanes(selection), {name: number for number, name in enumerate(PHASES)}
    phases = np.array(
        [phase.get(name or "other", len(PHASES) - 1) for name in ops["phase"]], np.int8
    )
    classes = np.where(lanes == _NO_LANE, _NO_CLASS, lanes * len(PHASES) + phases).astype(np.int8)
    parts = on_threads(
        lambda of: _sweep_device(*of, classes), _by_device(selection, spans), rows=len(spans)
    )
    return _named(np.concatenate([np.empty((len(SCHEMA), 0), np.int64), *parts], axis=1))


def _by_device(
    selection: Selection, spans: pl.DataFrame
) -> Iterator[tuple[int, pl.DataFrame, pl.DataFrame]]:
    rows = device_slices(spans)
    for device, windows in device_slices(selection.windows).items():
        yield device, selection.windows[windows], spans[rows.get(device, slice(0, 0))]


def _lanes(selection: Selection) -> NDArray[np.int8]:
    """Return the lane of each op as a number; control spans contain others, with no lane.

    A measured callback of the host has none either: the device waits for it.
    """
    timeline = selection.timeline
    lane = {str(state): number for number, state in enumerate(STATES)}
    lanes = np.array([lane.get(name, _NO_LANE) for name in timeline.ops["lane"]], np.int8)
    if timeline.basis is Basis.MEASURED:
        lanes[callback_ops(timeline)] = _NO_LANE
    return lanes


def _sweep_device(
    device: int, windows: pl.DataFrame, spans: pl.DataFrame, classes: NDArray[np.int8]
) -> Longs:
    kind, duration = classes[spans["op"].to_numpy()], spans["dur_ps"].to_numpy()
    works = (kind != _NO_CLASS) & (duration > 0)
    kind, start = kind[works], spans["start_ps"].to_numpy()[works]
    end = start + duration[works]
    cuts = np.concatenate([windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy()])
    times = np.concatenate([start, end, cuts])
    order = np.argsort(times, kind="stable")
    times = times[order]
    opens = np.repeat(np.array([1, -1, 0], np.int8), [len(start), len(end), len(cuts)])
    of_cuts = np.full(len(cuts), _NO_CLASS, np.int8)
    first, hidden = _states(np.concatenate([kind, kind, of_cuts])[order], opens[order])
    length = np.diff(times)
    window = _windows_at(times[:-1], windows)
    kept = (length > 0) & (window >= 0)
    sums = _sum(window[kept], first[kept], hidden[kept], length[kept])
    window, first, hidden, ps = sums
    idle = first == _NO_CLASS
    state, phase = np.divmod(np.where(idle, len(STATES) * len(PHASES), first), len(PHASES))
    phase[idle] = len(PHASES) - 1
    steps = windows["step"].to_numpy()[window]
    return np.stack([np.full(len(ps), device), steps, state, phase, hidden, ps])


def _states(
    kind: NDArray[np.int8], opens: NDArray[np.int8]
) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Return the first open class between two boundaries, and whether it hides a collective."""
    first = np.full(len(kind) - 1, _NO_CLASS, np.int8)
    communicates = np.zeros(len(first), bool)
    present = np.flatnonzero(np.bincount(kind - _NO_CLASS)) + _NO_CLASS
    for class_ in present[present != _NO_CLASS][::-1].tolist():
        is_open = np.cumsum(opens * (kind == class_), dtype=np.int32)[:-1] > 0
        first[is_open] = class_
        if STATES[class_ // len(PHASES)] == Lane.COLLECTIVE:
            communicates |= is_open
    return first, communicates & (first != _NO_CLASS) & (first < len(PHASES))


def _windows_at(at: Longs, windows: pl.DataFrame) -> Longs:
    """Return the row of the window at each of these sorted times; -1 between windows."""
    starts, ends = windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy()
    window_rows = np.full(len(at), -1, np.int64)
    for row, (first, last) in enumerate(np.searchsorted(at, np.stack([starts, ends], 1)).tolist()):
        window_rows[first:last] = row
    return window_rows


def _sum(
    window: Longs, first: NDArray[np.int8], hidden: NDArray[np.bool_], length: Longs
) -> tuple[Longs, Longs, Longs, Longs]:
    """Return sums by window, first open class and hidden, as columns in this order."""
    # Classes begin with that of idleness, which comes last.
    classes = len(STATES) * len(PHASES) + 1
    class_ = np.where(first == _NO_CLASS, classes - 1, first)
    code = (window * classes + class_) * 2 + hidden
    ps = np.zeros(int(code.max(initial=-1)) + 1, np.int64)
    np.add.at(ps, code, length)
    cells = np.flatnonzero(ps)
    in_window = cells // 2 % classes
    kinds = np.where(in_window == classes - 1, _NO_CLASS, in_window)
    return cells // 2 // classes, kinds, cells % 2, ps[cells]


def _named(sums: Longs) -> pl.DataFrame:
    """Return the columns of `_sum` with the names of states and phases."""
    names = [str(lane) for lane in STATES] + [IDLE]
    summed = pl.DataFrame(dict(zip(SCHEMA, sums, strict=True)))
    return summed.select(
        "device",
        "step",
        pl.col("state").replace_strict(dict(enumerate(names)), return_dtype=pl.String),
        pl.when(pl.col("state") < len(STATES))
        .then(pl.col("phase").replace_strict(dict(enumerate(PHASES)), return_dtype=pl.String))
        .alias("phase"),
        "hidden",
        "ps",
    ).cast({**SCHEMA})


def holding(selection: Selection, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the time held per device, step and op; step is null for spans before all windows.

    A moment of compute belongs to the ops that compute then, in equal parts if there are several;
    one of exposed communication to the collectives, one of exposed copying to the copies. So hidden
    ops hold nothing, and the times held by all ops add up to the busy time of the step.
    """
    lanes = _lanes(selection)
    parts = [_held(own, windows, lanes) for _, windows, own in _by_device(selection, spans)]
    return pl.concat([pl.DataFrame(schema=HOLDING_SCHEMA), *parts])


def _held(spans: pl.DataFrame, windows: pl.DataFrame, lanes: NDArray[np.int8]) -> pl.DataFrame:
    start = spans["start_ps"].to_numpy()
    end = start + spans["dur_ps"].to_numpy()
    lane = np.where(end > start, lanes[spans["op"].to_numpy()], _NO_LANE)
    boundaries = values_of(
        np.concatenate([start, end, windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy()])
    )
    free = _windows_at(boundaries[:-1], windows) >= 0
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
        passed: NDArray[np.float64] = np.concatenate([[0.0], np.cumsum(share)])
        held[in_lane] = passed[last] - passed[first]
        free &= count == 0
    return (
        spans.select("device", "step", "op")
        .with_columns(held_ps=pl.Series(held, dtype=pl.Float64))
        .group_by("device", "step", "op")
        .agg(pl.col("held_ps").sum())
        .select(pl.col(name).cast(kind) for name, kind in HOLDING_SCHEMA.items())
    )


def _open(first: Longs, last: Longs, boundaries: int) -> Longs:
    """Return how many spans are open in the interval that begins at each boundary but the last."""
    opened = np.bincount(first, minlength=boundaries) - np.bincount(last, minlength=boundaries)
    return np.cumsum(opened)[:-1]
