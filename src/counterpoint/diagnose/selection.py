"""Selection of the steps and devices that an explanation covers.

Statistics of step time use every steady step. The inside of a step is shown for a typical one: the
mean over devices of the steps around the median, scaled to it, so that a single checkpoint or
hiccup does not distort the picture and the parts still add up to the step. The median of an even
number of steps is the mean of the two in the middle. Where half of the steps are slow, none is
typical: then the mean of all is shown.

Where no whole step was seen, or the requested one is not whole, runs of its program replace it, and
`window` indicates this: their length is not a step time.

Profiles have hundreds of devices and millions of spans, so metrics stay linear: spans and windows
are sorted by device, and `device_slices` gives each device's rows without scanning the others.
Never filter all spans for one device; group over `device`, or slice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from statistics import mean, median
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core import InputError, UsageError
from counterpoint.core.columns import Intervals, around_median, as_ranges, union
from counterpoint.diagnose.whole_runs import whole_runs
from counterpoint.timeline.model import Timeline

Longs = NDArray[np.int64]

PS_PER_MS: Final = 1e9
_LISTED: Final = 16
_NO_STEP: Final = int(np.iinfo(np.int32).min)
_WIDE: Final = 2
"""Candidates per span beyond which a longer search for the first ones pays."""

_ENOUGH_STEPS: Final = 20
_ENOUGH_SPANS: Final = 200_000
"""Numbers to look into: steps are alike, and a capture may have thousands of them."""

_BLOCK_ROWS: Final = 1 << 17
"""Rows of a block of devices, at most, unless one device has more."""


class WindowKind(StrEnum):
    """The extent of the windows of a Selection."""

    STEP = "step"
    RUN = "run"  # of the step's program, from its first op to its last
    PROFILE = "profile"  # all of it: it names no program, or has no whole run of the step's


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Windows sorted by device and start; `scale` turns a sum over them into one step's."""

    timeline: Timeline
    step: int | None  # the requested one; None: typical ones
    devices: tuple[int, ...]
    lengths_ms: tuple[float, ...]  # of every step that counts, or of its replacement; device mean
    windows: pl.DataFrame  # of typical steps: step, device, start_ps, end_ps
    scale: float  # milliseconds of one step per picosecond summed over all windows
    window: WindowKind = WindowKind.STEP
    not_looked_into: int = 0  # typical steps without a window, because there are very many
    is_mean: bool = False  # the windows are those of all steps, and one step is their mean

    @property
    def median_ms(self) -> float:
        """Length of the median step, or of its replacement."""
        return median(self.lengths_ms)

    @property
    def shown_ms(self) -> float:
        """Length of the step whose parts are shown: the median one, or the mean."""
        return mean(self.lengths_ms) if self.is_mean else self.median_ms

    @property
    def step_lengths_ms(self) -> tuple[float, ...]:
        """Lengths of whole steps; empty if runs or the profile replace them."""
        return self.lengths_ms if self.window is WindowKind.STEP else ()

    @property
    def subject(self) -> str:
        """The subject of the figures, as a noun: `a median step`."""
        if self.window is WindowKind.PROFILE:
            return "the whole profile"
        if self.window is WindowKind.STEP:
            return self._steps if self.step is None else f"step {self.step}"
        number = self.timeline.step_program
        program = "the program" if number is None else self.timeline.programs[number].name
        where = "" if self.step is None else f" in step {self.step}"
        return f"one run of {program}{where}"

    @property
    def _steps(self) -> str:
        """The steps whose median is shown: named if they were chosen."""
        if self.timeline.chosen is None:
            if self.is_mean:
                return "a mean step"
            return "a median step" if len(self.lengths_ms) != 1 else "the step"
        steps = self.timeline.steps
        counted = steps.filter("whole", "steady")["step"].unique().sort().to_list()
        if len(counted) == 1:
            return f"step {counted[0]}"
        which = "mean" if self.is_mean else "median"
        return f"the {which} of steps {as_ranges(counted)}"

    @property
    def occurrences(self) -> int:
        """Number of windows, one per step and device."""
        return len(self.windows)

    def spans(self) -> pl.DataFrame:
        """Return spans that overlap a window or belong to a run of it, with two additional columns.

        `row` is the span's row in the Timeline; `step` is the window it starts in, null if none.
        """
        spans = self.timeline.spans
        own_rows = device_slices(spans)
        kept: list[Longs] = []
        steps: list[NDArray[np.int32]] = []
        for device, windows, extent in self._extents():
            rows = own_rows.get(device, slice(0, 0))
            start, duration = (spans[name][rows].to_numpy() for name in ("start_ps", "dur_ps"))
            rows_inside = _overlapping(extent, start, duration)
            kept.append(rows_inside + rows.start)
            steps.append(_step_at(start[rows_inside], self.windows[windows]))
        row = pl.Series("row", np.concatenate([np.empty(0, np.int64), *kept]), pl.UInt32)
        step = pl.Series("step", np.concatenate([np.empty(0, np.int32), *steps]), pl.Int32)
        return (
            spans[row].insert_column(0, row).with_columns(step=pl.when(step != _NO_STEP).then(step))
        )

    def _extents(self) -> Iterator[tuple[int, slice, Intervals]]:
        """Yield each device with its windows, and these extended by the runs of their steps."""
        runs = self.timeline.runs.join(self.windows, on=["step", "device"], how="semi")
        runs = runs.sort("device", "start_ps")
        own_runs = device_slices(runs)
        for device, rows in device_slices(self.windows).items():
            parts = (self.windows[rows], runs[own_runs.get(device, slice(0, 0))])
            start = np.concatenate([part["start_ps"].to_numpy() for part in parts])
            end = np.concatenate([part["end_ps"].to_numpy() for part in parts])
            yield device, rows, union(start, end)


def _overlapping(extent: Intervals, start: Longs, duration: Longs) -> Longs:
    """Return the positions of the spans, sorted by start, that overlap an extent."""
    if not len(extent) or not len(start):
        return np.empty(0, np.int64)
    last = np.searchsorted(start, extent.end, side="left")
    # No span before these lasts until the extent: the longest tells, unless it tells too little.
    first = np.searchsorted(start, extent.start - int(duration.max()), side="left")
    if int((last - first).sum()) > _WIDE * len(start):
        first = np.searchsorted(np.maximum.accumulate(start + duration), extent.start, side="right")
    first = np.maximum(first, np.append(0, np.maximum.accumulate(last)[:-1]))
    length = np.maximum(last - first, 0)
    shift = np.repeat(first - (np.cumsum(length) - length), length)
    overlapping = np.arange(int(length.sum())) + shift
    return overlapping[start[overlapping] + duration[overlapping] > np.repeat(extent.start, length)]


def _step_at(start: Longs, windows: pl.DataFrame) -> NDArray[np.int32]:
    """Return the step of the window in which each span starts."""
    starts, ends = windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy()
    at = np.maximum(np.searchsorted(starts, start, side="right") - 1, 0)
    inside = (start >= starts[at]) & (start < ends[at])
    return np.where(inside, windows["step"].to_numpy()[at], _NO_STEP).astype(np.int32)


def require_devices(timeline: Timeline) -> None:
    """Raise an error if the profile shows no work of any device."""
    if not timeline.devices:
        raise InputError(
            f"{', '.join(timeline.inputs)}: no device activity in this profile",
            why="; ".join(timeline.notes) or "it contains host events only",
            next="capture again while steps run, e.g. from step 3 on, after compilation",
        )


def device_slices(frame: pl.DataFrame, by: str = "device") -> dict[int, slice]:
    """Return the rows of each device, or each `by`, in a table sorted by it."""
    device = frame[by].to_numpy()
    if not len(device):
        return {}
    bounds = [0, *(np.flatnonzero(device[1:] != device[:-1]) + 1).tolist(), len(device)]
    return {int(device[first]): slice(first, end) for first, end in pairwise(bounds)}


def device_blocks(frame: pl.DataFrame) -> Iterator[slice]:
    """Yield the rows of a few devices at a time, in a table sorted by device.

    What is computed block by block stays in the caches, and in memory that was used before: fresh
    memory costs more time than most of what is done with it.
    """
    first = end = 0
    for rows in device_slices(frame).values():
        if rows.stop - first > _BLOCK_ROWS and end > first:
            yield slice(first, end)
            first = rows.start
        end = rows.stop
    if end > first:
        yield slice(first, end)


def select(
    timeline: Timeline, *, step: int | None = None, devices: Sequence[int] | None = None
) -> Selection:
    """Choose typical steps, or `step`, on all devices or on `devices`."""
    chosen = tuple(range(len(timeline.devices))) if devices is None else tuple(devices)
    _check_devices(timeline, chosen)
    steps = timeline.steps.filter(pl.col("device").is_in(chosen))
    if step is not None:
        counted = steps.filter(pl.col("step") == step)
        _check_step(timeline, step, len(counted))
    else:
        counted = _counted(steps)
    window = WindowKind.STEP
    if not counted["whole"].all():
        counted, window = _runs_in(timeline, counted, only=step is not None)
    return _selected(timeline, counted, chosen, step, window)


def select_everywhere(selection: Selection) -> Selection:
    """Choose the steps of a Selection on all devices."""
    timeline, step = selection.timeline, selection.step
    if selection.window is not WindowKind.STEP:
        return select(timeline, step=step)
    chosen = pl.col("step").is_in(selection.windows["step"].unique().implode())
    windows = timeline.steps.filter(chosen).select(*selection.windows.columns)
    length = pl.col("end_ps") - pl.col("start_ps")
    total = int(windows.select(length.sum()).item())
    lengths = windows.group_by("step").agg(length.mean())[:, 1].to_list()
    of_one = mean(lengths) if selection.is_mean else median(lengths)
    return replace(
        selection,
        devices=tuple(range(len(timeline.devices))),
        windows=windows.sort("device", "start_ps"),
        scale=of_one / PS_PER_MS / total if total else 0.0,
    )


def select_runs(timeline: Timeline) -> Selection:
    """Choose the runs of the step's program instead of whole steps, one in each."""
    counted, window = _runs_in(timeline, _counted(timeline.steps), only=False)
    return _selected(timeline, counted, tuple(range(len(timeline.devices))), None, window)


def select_steady(timeline: Timeline, devices: Sequence[int]) -> Selection:
    """Choose all steady steps on these devices, not only those of typical length."""
    chosen = _counted(timeline.steps.filter(pl.col("device").is_in(devices)))
    return _selected(timeline, chosen, tuple(devices), None, WindowKind.STEP, only_typical=False)


def _counted(steps: pl.DataFrame) -> pl.DataFrame:
    """Return steady steps; if there are none, the last step of each device."""
    steady = steps.filter("steady")
    last = pl.col("start_ps") == pl.col("start_ps").max().over("device")
    return steps.filter(last) if steady.is_empty() else steady


def _selected(
    timeline: Timeline,
    counted: pl.DataFrame,
    devices: tuple[int, ...],
    step: int | None,
    window: WindowKind,
    *,
    only_typical: bool = True,
) -> Selection:
    counted = counted.with_columns(length=pl.col("end_ps") - pl.col("start_ps"))
    typical, others = counted, 0
    if step is None and only_typical:
        typical, others = _typical(counted, _enough_steps(timeline))
    per_step = counted.group_by("step", maintain_order=True).agg(pl.col("length").mean())
    lengths = tuple(length / PS_PER_MS for length in per_step["length"].to_list())
    total = int(typical["length"].sum())
    return Selection(
        timeline=timeline,
        step=step,
        devices=devices,
        lengths_ms=lengths,
        windows=typical.select("step", "device", "start_ps", "end_ps").sort("device", "start_ps"),
        scale=median(lengths) / total if total else 0.0,
        window=window,
        not_looked_into=others,
    )


def _runs_in(
    timeline: Timeline, steps: pl.DataFrame, *, only: bool
) -> tuple[pl.DataFrame, WindowKind]:
    """Return the last whole run of the step's program in each of some steps.

    If none of these has one, and they need not be the `only` ones, the last whole run of all. If
    there is none either, the program has no length here: then the whole profile is the window.
    """
    if timeline.step_program is None:
        return steps, WindowKind.PROFILE
    devices = steps["device"].unique()
    runs = (
        whole_runs(timeline)
        .filter(pl.col("step").is_not_null() & pl.col("device").is_in(devices.implode()))
        .filter(pl.col("start_ps") == pl.col("start_ps").max().over("step", "device"))
    )
    everywhere = runs.filter(pl.col("device").n_unique().over("step") == len(devices))
    wanted = everywhere.filter(pl.col("step").is_in(steps["step"].implode()))
    if wanted.is_empty() and not only:
        wanted = everywhere.filter(pl.col("step") == pl.col("step").max())
    if wanted.is_empty():
        return _all_of_it(timeline, steps), WindowKind.PROFILE
    return wanted.select("step", "device", "start_ps", "end_ps"), WindowKind.RUN


def _all_of_it(timeline: Timeline, steps: pl.DataFrame) -> pl.DataFrame:
    """Return one window for each device, from its first span to its last."""
    end = pl.col("start_ps") + pl.col("dur_ps")
    return (
        timeline.spans.filter(pl.col("device").is_in(steps["device"].implode()))
        .group_by("device")
        .agg(pl.col("start_ps").min(), end.max().alias("end_ps"))
        .select(pl.lit(steps["step"].max(), pl.Int32).alias("step"), "device", "start_ps", "end_ps")
        .sort("device")
    )


def _enough_steps(timeline: Timeline) -> int:
    """Return the number of typical steps to look into."""
    per_step = len(timeline.spans) / max(timeline.steps["step"].n_unique(), 1)
    return max(_ENOUGH_STEPS, int(_ENOUGH_SPANS / max(per_step, 1)))


def _typical(steps: pl.DataFrame, enough: int) -> tuple[pl.DataFrame, int]:
    """Return steps around the median: the middle half, and others within 1% of it.

    If there are more than `enough`, some of each length, and the number of the others.
    """
    lengths = steps.group_by("step").agg(pl.col("length").mean()).sort("length", "step")
    if lengths.is_empty():
        return steps, 0
    reach = around_median(lengths["length"])
    inside = lengths.filter(pl.col("length").is_between(*reach))["step"].to_list()
    chosen = inside
    if len(inside) > enough:
        spread = np.linspace(0, len(inside) - 1, enough)
        chosen = [inside[round(at)] for at in spread]
    return steps.filter(pl.col("step").is_in(chosen)), len(inside) - len(chosen)


def _check_devices(timeline: Timeline, devices: tuple[int, ...]) -> None:
    count = len(timeline.devices)
    for device in devices:
        if not 0 <= device < count:
            raise UsageError(
                f"there is no device {device}",
                why=f"devices of this profile: {_list_devices(timeline)}",
                next="use --device 0",
            )


def _list_devices(timeline: Timeline) -> str:
    """List device numbers, each with its host and its number there."""
    shown = [
        f"{index} ({timeline.hosts[device.host].name}, {device.kind} {device.ordinal})"
        for index, device in enumerate(timeline.devices[:_LISTED])
    ]
    more = len(timeline.devices) - _LISTED
    return ", ".join(shown) + (f", ... {len(timeline.devices) - 1}" if more > 0 else "")


def _check_step(timeline: Timeline, step: int, windows: int) -> None:
    if not windows:
        known = timeline.steps["step"].unique().sort().to_list()
        where = " on the selected devices" if step in known else ""
        raise UsageError(
            f"there is no step {step}{where}",
            why=f"steps in this profile: {as_ranges(known)}",
            next=f"use --step {known[0]}" if known else None,
        )


def of_steps(selection: Selection, steps: Collection[int]) -> Selection:
    """Return a Selection whose windows are these steady steps."""
    windows = (
        selection.timeline.steps.filter(
            pl.col("steady")
            & pl.col("step").is_in([*steps])
            & pl.col("device").is_in(selection.devices)
        )
        .select("step", "device", "start_ps", "end_ps")
        .sort("device", "start_ps")
    )
    return replace(selection, windows=windows)


def of_all(selection: Selection) -> Selection:
    """Return a Selection of all steady steps, or of some of very many, scaled to their mean."""
    steps = selection.timeline.steps.filter("steady")["step"].unique().sort().to_list()
    every = -(-len(steps) // _enough_steps(selection.timeline))
    of_them = of_steps(selection, steps[::every])
    total = int((of_them.windows["end_ps"] - of_them.windows["start_ps"]).sum())
    scale = mean(selection.lengths_ms) / total
    return replace(
        of_them, scale=scale, is_mean=True, not_looked_into=len(steps) - len(steps[::every])
    )
