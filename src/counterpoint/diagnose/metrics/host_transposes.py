"""Time in which the host writes arrays in another order, before the steps and in them.

The runtime brings arrays into the device's layout, or back into numpy's, on threads of the host and
records it (xla/pjrt/transpose.cc). Events lie in each other and side by side: what counts is the
time in which at least one goes on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from counterpoint.core.intervals import Intervals, union
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.selection import PS_PER_MS

_NAME: Final = re.compile(r"^Transpose(Plan)?::Execute|^(Parallel|DelinearizeUsing)Transpose")


@dataclass(frozen=True, slots=True)
class HostTransposes:
    """Milliseconds; `busy_ms` sums threads up, the others don't."""

    name: str
    events: int
    busy_ms: float
    before_ms: float  # before the first step
    in_steps_ms: float  # in a median step, mean over hosts


def host_transposes(case: Case) -> HostTransposes:
    """Of all hosts; nothing where no step was found."""
    timeline = case.timeline
    codes = [code for code, name in enumerate(timeline.host_names) if _NAME.match(name)]
    events = timeline.host_events.filter(pl.col("name").is_in(codes) & (pl.col("dur_ps") > 0))
    windows = case.selection.windows
    if not len(events) or not len(windows):
        return HostTransposes("", 0, 0.0, 0.0, 0.0)
    first = int(timeline.steps["start_ps"].to_numpy().min())
    hosts = [union_of(of) for _, of in events.group_by("host", maintain_order=True)]
    steps = union(windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy())
    share = case.step_ms * PS_PER_MS / max(_mean_length(windows), 1.0) / _per_device(windows)
    busiest = events.group_by("name").agg(pl.col("dur_ps").sum()).sort("dur_ps", "name")
    last: int = busiest["name"].to_list()[-1]
    return HostTransposes(
        name=timeline.host_names[last],
        events=len(events),
        busy_ms=float(events["dur_ps"].sum()) / PS_PER_MS,
        before_ms=max(_before(it, first) for it in hosts) / PS_PER_MS,
        in_steps_ms=sum((it & steps).total for it in hosts) / len(hosts) / PS_PER_MS * share,
    )


def union_of(events: pl.DataFrame) -> Intervals:
    """The time in which at least one of them goes on."""
    start = events["start_ps"].to_numpy()
    return union(start, start + events["dur_ps"].to_numpy())


def _before(of: Intervals, moment: int) -> int:
    return of.clip(int(np.iinfo(np.int64).min), moment).total


def _mean_length(windows: pl.DataFrame) -> float:
    return float((windows["end_ps"] - windows["start_ps"]).to_numpy().mean())


def _per_device(windows: pl.DataFrame) -> float:
    return len(windows) / windows["device"].n_unique()
