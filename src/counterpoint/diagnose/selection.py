"""Which steps of which devices an explanation is about.

Statistics of step time use every steady step. What happens inside a step is shown for a typical
one: the mean over devices of the steps around the median, scaled to it, so that one checkpoint or
one hiccup colours nothing and the parts still add up to the step. The median is the
length of a step that was seen: of an even number of them, the lower of the two in the middle.

Where no whole step was seen, or the one asked for is not whole, the runs of its program stand in,
and `window` says so: what they take is no step time.

Profiles have hundreds of devices and millions of spans, so metrics stay linear: spans and windows
are sorted by device, and `device_slices` gives each device's rows without a look at the others'.
Never filter all spans for one device; group over `device`, or slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median_low
from typing import Final

import numpy as np
import polars as pl

from counterpoint.core import UsageError
from counterpoint.core.columns import as_ranges
from counterpoint.timeline import Timeline

PS_PER_MS: Final = 1e9
_EQUAL: Final = 0.01
_LISTED: Final = 16
_NO_STEP: Final = int(np.iinfo(np.int32).min)


class Window(StrEnum):
    """What the windows of a Selection hold."""

    STEP = "step"
    RUN = "run"  # of the step's program, from its first op to its last
    PROFILE = "profile"  # all of it, for it names no program


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Windows are sorted by device and start; `scale` turns a sum over them into one step's."""

    timeline: Timeline
    step: int | None  # the one asked for; None: typical ones
    devices: tuple[int, ...]
    lengths_ms: tuple[float, ...]  # of every step that counts, or what stands in; device mean
    windows: pl.DataFrame  # of typical steps: step, device, start_ps, end_ps
    scale: float  # milliseconds of a median step per picosecond summed over all windows
    window: Window = Window.STEP

    @property
    def median_ms(self) -> float:
        """Length of the median step, or of what stands in for one."""
        return median_low(self.lengths_ms)

    @property
    def step_lengths_ms(self) -> tuple[float, ...]:
        """Lengths of whole steps; none where something else stands in."""
        return self.lengths_ms if self.window is Window.STEP else ()

    @property
    def subject(self) -> str:
        """What figures are of, as a noun: `a median step`."""
        if self.window is Window.PROFILE:
            return "all of the profile"
        if self.window is Window.STEP:
            return "a median step" if self.step is None else f"step {self.step}"
        number = self.timeline.step_program
        program = "the program" if number is None else self.timeline.programs[number].name
        where = "" if self.step is None else f" in step {self.step}"
        return f"one run of {program}{where}"

    @property
    def occurrences(self) -> int:
        """How many steps of single devices the windows hold."""
        return len(self.windows)

    def spans(self) -> pl.DataFrame:
        """Spans that touch a window's time, with two columns more.

        `row` is the span's row in the Timeline, `step` the window it starts in; null: in none.
        """
        spans = self.timeline.spans
        step = np.full(len(spans), _NO_STEP, np.int32)
        start = spans["start_ps"].to_numpy()
        end = start + spans["dur_ps"].to_numpy()
        kept = np.zeros(len(spans), bool)
        own_rows = device_slices(spans)
        for one, window in device_slices(self.windows).items():
            mine = own_rows.get(one, slice(0, 0))
            windows = self.windows[window]
            starts, ends = windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy()
            kept[mine] = (start[mine] < ends[-1]) & (end[mine] > starts[0])
            at = np.maximum(np.searchsorted(starts, start[mine], side="right") - 1, 0)
            inside = (start[mine] >= starts[at]) & (start[mine] < ends[at])
            step[mine] = np.where(inside, windows["step"].to_numpy()[at], _NO_STEP)
        rows = pl.Series("row", np.flatnonzero(kept), pl.UInt32)
        own_step = pl.Series("step", step[kept], pl.Int32)
        return (
            spans[rows]
            .insert_column(0, rows)
            .with_columns(step=pl.when(own_step != _NO_STEP).then(own_step))
        )


def device_slices(frame: pl.DataFrame) -> dict[int, slice]:
    """The rows of each device in a table sorted by device."""
    device = frame["device"].to_numpy()
    if not len(device):
        return {}
    bounds = [0, *(np.flatnonzero(device[1:] != device[:-1]) + 1).tolist(), len(device)]
    return {int(device[first]): slice(first, end) for first, end in pairwise(bounds)}


def select(
    timeline: Timeline, *, step: int | None = None, devices: Sequence[int] | None = None
) -> Selection:
    """Choose typical steps, or the one asked for, on all devices or on those asked for."""
    chosen = tuple(range(len(timeline.devices))) if devices is None else tuple(devices)
    _check_devices(timeline, chosen)
    steps = timeline.steps.filter(pl.col("device").is_in(chosen))
    if step is not None:
        counted = steps.filter(pl.col("step") == step)
        _check_step(timeline, step, len(counted))
    else:
        counted = _counted(steps)
    window = Window.STEP
    if not counted["whole"].all():
        counted, window = _runs_in(timeline, counted)
    return _selected(timeline, counted, chosen, step, window)


def select_runs(timeline: Timeline) -> Selection:
    """In place of whole steps the runs of their program, one in each."""
    counted, window = _runs_in(timeline, _counted(timeline.steps))
    return _selected(timeline, counted, tuple(range(len(timeline.devices))), None, window)


def _counted(steps: pl.DataFrame) -> pl.DataFrame:
    """Steady steps; where there are none, the last of each device."""
    steady = steps.filter("steady")
    last = pl.col("start_ps") == pl.col("start_ps").max().over("device")
    return steps.filter(last) if steady.is_empty() else steady


def _selected(
    timeline: Timeline,
    counted: pl.DataFrame,
    devices: tuple[int, ...],
    step: int | None,
    window: Window,
) -> Selection:
    counted = counted.with_columns(length=pl.col("end_ps") - pl.col("start_ps"))
    typical = _typical(counted) if step is None else counted
    per_step = counted.group_by("step", maintain_order=True).agg(pl.col("length").mean())
    lengths = tuple(length / PS_PER_MS for length in per_step["length"].to_list())
    total = int(typical["length"].sum())
    return Selection(
        timeline=timeline,
        step=step,
        devices=devices,
        lengths_ms=lengths,
        windows=typical.select("step", "device", "start_ps", "end_ps").sort("device", "start_ps"),
        scale=median_low(lengths) / total if total else 0.0,
        window=window,
    )


def _runs_in(timeline: Timeline, steps: pl.DataFrame) -> tuple[pl.DataFrame, Window]:
    """The last run of their program in each of some steps."""
    if timeline.step_program is None:
        return steps, Window.PROFILE
    runs = (
        timeline.runs.filter(pl.col("program") == timeline.step_program)
        .join(steps.select("step", "device"), on=["step", "device"])
        .filter(pl.col("start_ps") == pl.col("start_ps").max().over("step", "device"))
    )
    if runs.is_empty():
        return steps, Window.PROFILE
    return runs.select("step", "device", "start_ps", "end_ps"), Window.RUN


def _typical(steps: pl.DataFrame) -> pl.DataFrame:
    """Steps around the median: the middle half of them, and others as good as equal to it."""
    lengths = steps.group_by("step").agg(pl.col("length").mean()).sort("length")
    ranked = lengths["length"].to_list()
    if not ranked:
        return steps
    middle, half = (len(ranked) - 1) // 2, (len(ranked) - 1) // 4
    low = min(ranked[middle - half], (1 - _EQUAL) * ranked[middle])
    high = max(ranked[middle + half], (1 + _EQUAL) * ranked[middle])
    inside = lengths.filter(pl.col("length").is_between(low, high))["step"].to_list()
    return steps.filter(pl.col("step").is_in(inside))


def _check_devices(timeline: Timeline, devices: tuple[int, ...]) -> None:
    count = len(timeline.devices)
    for device in devices:
        if not 0 <= device < count:
            raise UsageError(
                f"there is no device {device}",
                why=f"devices of this profile: {_list_devices(timeline)}",
                next="--device 0",
            )


def _list_devices(timeline: Timeline) -> str:
    """Numbers of the devices, each with its host and the number that it has there."""
    shown = [
        f"{index} ({timeline.hosts[device.host].name}, {device.kind} {device.ordinal})"
        for index, device in enumerate(timeline.devices[:_LISTED])
    ]
    more = len(timeline.devices) - _LISTED
    return ", ".join(shown) + (f" and on to {len(timeline.devices) - 1}" if more > 0 else "")


def _check_step(timeline: Timeline, step: int, found: int) -> None:
    if not found:
        known = timeline.steps["step"].unique().sort().to_list()
        where = " on the devices asked for" if step in known else ""
        raise UsageError(
            f"there is no step {step}{where}",
            why=f"steps in this profile: {as_ranges(known)}",
            next=f"--step {known[0]}" if known else None,
        )
