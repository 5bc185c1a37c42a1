"""Attribution of step time: every moment of a device's step belongs to exactly one state.

    compute      a kernel computes (collectives overlapped with it are hidden)
    collective   no kernel computes, a collective runs: exposed communication
    copy         neither, data is copied
    idle         nothing runs

One sweep over the starts and ends of a device's spans, so the parts add up by construction and two
overlapping kernels count once. The phase of a moment is that of the span that determined its state.

From it follow the figures of a median step: its parts and its phases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import values_of
from counterpoint.core.frozen import frozen
from counterpoint.core.threads import on_threads
from counterpoint.diagnose.selection import Selection, WindowKind, device_slices
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
_NO_CLASS: Final = -1


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
    """Return the lane of each op as a number; control spans contain others, with no lane."""
    lane = {str(state): number for number, state in enumerate(STATES)}
    names = selection.timeline.ops["lane"]
    return np.array([lane.get(name, _NO_LANE) for name in names], np.int8)


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
    found = np.full(len(at), -1, np.int64)
    for row, (first, last) in enumerate(np.searchsorted(at, np.stack([starts, ends], 1)).tolist()):
        found[first:last] = row
    return found


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
    found = np.flatnonzero(ps)
    in_window = found // 2 % classes
    kinds = np.where(in_window == classes - 1, _NO_CLASS, in_window)
    return found // 2 // classes, kinds, found % 2, ps[found]


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


HOLDING_SCHEMA: Final = {
    "device": pl.UInt16,
    "step": pl.Int32,
    "op": pl.UInt32,
    "held_ps": pl.Float64,
}


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


def self_times(spans: pl.DataFrame) -> NDArray[np.int64]:
    """Return the self time of each span in picoseconds, in the order of the frame.

    Self time is how long a span runs without the spans nested in it on the same line: loops and
    calls contain the ops of their bodies.
    """
    line, start, duration = (spans[name].to_numpy() for name in ("line", "start_ps", "dur_ps"))
    order = _by_line(line, start, duration)
    start, duration, line = start[order], duration[order], line[order]
    result = np.zeros(len(spans), np.int64)
    bounds = np.flatnonzero(np.diff(line.astype(np.int64), prepend=-1, append=-1))
    for first, last in pairwise(bounds):
        rows = slice(first, last)
        result[order[rows]] = _without_children(start[rows], duration[rows])
    return result


def _by_line(line: NDArray[np.uint32], start: Longs, duration: Longs) -> Longs:
    """Return the order of spans with a length by line and start, the longer ones first."""
    lines = int(line.max(initial=0))
    narrow = line.astype(np.uint16) if lines < 1 << 16 else line  # sorted by digits if narrow
    order = np.argsort(narrow, kind="stable")
    order = order[duration[order] > 0]
    own_line = line[order]
    bounds = np.flatnonzero(np.diff(own_line.astype(np.int64), prepend=-1, append=-1))
    for low, high in pairwise(bounds.tolist()):
        # Spans are in order of start, device by device: a line has a sorted run of each.
        rows = order[low:high]
        order[low:high] = rows[np.argsort(start[rows], kind="stable")]
    first = start[order]
    together = own_line[1:] == own_line[:-1]
    same = np.flatnonzero(together & (first[1:] == first[:-1]))
    tied = np.zeros(len(order), bool)
    tied[same] = tied[same + 1] = True
    at = np.flatnonzero(tied)
    rows = order[at]
    order[at] = rows[np.lexsort((-duration[rows], start[rows], line[rows]))]
    return order


def _without_children(start: NDArray[np.int64], duration: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return self times of one line's spans, ordered by start, longer ones first.

    A span's depth is the number of spans open when it starts. Its children are the spans one level
    deeper that start before it ends, and their durations come from a running sum per level.
    """
    end = start + duration
    overlapping = np.flatnonzero(start[1:] < end[:-1])
    if not len(overlapping):
        return duration
    end = _cut_where_crossed(start, end, overlapping)
    duration = end - start
    depth = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    first_after = np.searchsorted(start, end, side="left")
    own = duration.copy()
    for level in range(int(depth.max())):
        at_level = np.flatnonzero(depth == level)
        below = np.concatenate([[0], np.cumsum(np.where(depth == level + 1, duration, 0))])
        nested = below[np.maximum(first_after[at_level], at_level + 1)] - below[at_level + 1]
        own[at_level] -= nested
    return np.maximum(own, 0)


def _cut_where_crossed(start: Longs, end: Longs, overlapping: Longs) -> Longs:
    """Return ends such that spans nest: a span ends where one starts that outlasts it.

    A GPU may start a kernel before the one ahead of it in the stream has finished. The last start
    before the end of each `overlapping` span bounds those that may outlast it.
    """
    ends = end[overlapping]
    past = np.searchsorted(start, ends, side="left")
    bounds = np.stack([overlapping + 1, past], axis=1).ravel()
    crossed = np.maximum.reduceat(np.append(end, 0), bounds)[::2] > ends
    cut = end.copy()
    for span, stop in zip(overlapping[crossed], past[crossed], strict=True):
        cut[span] = start[span + 1 + np.argmax(end[span + 1 : stop] > end[span])]
    return cut


_SPREAD: Final = 10

"""Minimum number of steps to report percentiles; below it, the shortest and longest step."""


@frozen(kw_only=True)
class StepTimes:
    """Step time over all steady steps, from start to start; None if no whole step was seen.

    `p10_ms` and `p90_ms` are None below ten steps. `execution_ms` is the part in which the step's
    program runs, from its first op to its last. All other figures of a step describe what `window`
    names, which takes `window_ms`: a run of the program, or the whole profile, if no whole step
    was seen.
    """

    count: int
    median_ms: float | None
    min_ms: float | None
    max_ms: float | None
    p10_ms: float | None
    p90_ms: float | None
    execution_ms: float | None
    window: WindowKind
    window_ms: float | None
    how: str


@frozen(kw_only=True)
class Breakdown:
    """Parts of a median step, mean over devices.

    Compute, exposed collective, exposed copy and idle add up to the step; hidden collective is the
    part of compute that a collective overlaps.
    """

    compute_ms: float
    collective_exposed_ms: float
    collective_hidden_ms: float
    copy_exposed_ms: float
    idle_ms: float


@frozen(kw_only=True)
class Phases:
    """Busy time of a median step by phase; the phases add up to the step without idle time."""

    forward_ms: float
    backward_ms: float
    remat_ms: float
    optimizer_ms: float
    other_ms: float


def step_times(selection: Selection, how: str) -> StepTimes:
    """Return median and spread of the step time."""
    lengths = selection.step_lengths_ms
    p10, p90 = np.percentile(lengths, [10, 90]) if len(lengths) >= _SPREAD else (None, None)
    return StepTimes(
        count=len(lengths),
        median_ms=selection.median_ms if lengths else None,
        min_ms=min(lengths, default=None),
        max_ms=max(lengths, default=None),
        p10_ms=None if p10 is None else float(p10),
        p90_ms=None if p90 is None else float(p90),
        execution_ms=_execution_ms(selection),
        window=selection.window,
        window_ms=selection.median_ms if selection.lengths_ms else None,
        how=how,
    )


def _execution_ms(selection: Selection) -> float | None:
    timeline = selection.timeline
    if timeline.step_program is None or selection.window is WindowKind.PROFILE:
        return None
    if selection.window is WindowKind.RUN:
        return selection.median_ms
    runs = timeline.runs.filter(pl.col("program") == timeline.step_program).join(
        selection.windows, on=["step", "device"], how="semi"
    )
    total = int((runs["end_ps"] - runs["start_ps"]).sum())
    return total * selection.scale if len(runs) else None


def breakdown(selection: Selection, attributed: pl.DataFrame) -> Breakdown:
    """Return the parts of a median step from the attribution of its time."""
    return _parts(
        (state for of_device in _sums(attributed).values() for state in of_device), selection.scale
    )


def device_breakdowns(selection: Selection, attributed: pl.DataFrame) -> dict[int, Breakdown]:
    """Return the breakdown per device, on a common scale: their mean is the overall one."""
    windows = device_slices(selection.windows)
    return {
        device: _parts(
            sums,
            selection.scale
            * selection.occurrences
            / (windows[device].stop - windows[device].start),
        )
        for device, sums in _sums(attributed).items()
    }


_Sum = tuple[str, bool, int]  # the state, whether a collective is hidden, picoseconds


def _sums(attributed: pl.DataFrame) -> dict[int, list[_Sum]]:
    """Return the time of each device in each state."""
    keys = ["device", "state", "hidden"]
    found: dict[int, list[_Sum]] = {}
    summed = attributed.group_by(keys, maintain_order=True).agg(pl.col("ps").sum())
    for device, state, hidden, ps in summed.rows():
        found.setdefault(device, []).append((state, hidden, ps))
    return found


def _parts(sums: Iterable[_Sum], scale: float) -> Breakdown:
    ps = dict.fromkeys((*map(str, STATES), IDLE), 0)
    beside = 0
    for state, hidden, of_state in sums:
        ps[state] += of_state
        beside += of_state if hidden else 0
    return Breakdown(
        compute_ms=ps[Lane.COMPUTE] * scale,
        collective_exposed_ms=ps[Lane.COLLECTIVE] * scale,
        collective_hidden_ms=beside * scale,
        copy_exposed_ms=ps[Lane.COPY] * scale,
        idle_ms=ps[IDLE] * scale,
    )


def phases(selection: Selection, attributed: pl.DataFrame) -> Phases | None:
    """Return the phases of a median step; None if no op's phase is known."""
    if not selection.timeline.ops["phase"].is_not_null().any():
        return None
    summed = {
        phase: float(attributed.filter(pl.col("phase") == phase)["ps"].sum()) * selection.scale
        for phase in PHASES
    }
    return Phases(**{f"{phase}_ms": ms for phase, ms in summed.items()})
