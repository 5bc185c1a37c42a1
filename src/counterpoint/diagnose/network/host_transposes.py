"""Transposes on the hosts: arrays that are brought into a device's layout, or out of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from counterpoint.core.columns import Intervals, union
from counterpoint.diagnose.network.host_work import union_of
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.diagnose.step_data import StepData, longest_rows

_NAME: Final = re.compile(r"^Transpose(Plan)?::Execute|^(Parallel|DelinearizeUsing)Transpose")


@dataclass(frozen=True, slots=True)
class HostTransposes:
    """Transposes on the hosts, in milliseconds; only `busy_ms` adds up threads."""

    name: str
    events: int
    busy_ms: float
    before_ms: float  # before the first step
    in_steps_ms: float  # in a median step, mean over hosts
    longest: tuple[int, ...] = ()  # rows of Timeline.host_events, in these steps


def host_transposes(data: StepData) -> HostTransposes:
    """Return the transposes of all hosts; empty if no step was found.

    The runtime reorders arrays into the device's layout, or back into NumPy's, on threads of the
    host and records it (xla/pjrt/transpose.cc). These events nest and overlap; except in `busy_ms`,
    the time in which at least one is active counts.
    """
    timeline = data.timeline
    codes = [code for code, name in enumerate(timeline.host_names) if _NAME.match(name)]
    events = timeline.host_events.with_row_index("row").filter(
        pl.col("name").is_in(codes) & (pl.col("dur_ps") > 0)
    )
    windows = data.selection.windows
    if not len(events) or not len(windows):
        return HostTransposes("", 0, 0.0, 0.0, 0.0)
    first = int(timeline.steps["start_ps"].to_numpy().min())
    hosts = [union_of(group) for _, group in events.group_by("host", maintain_order=True)]
    steps = union(windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy())
    length = float((windows["end_ps"] - windows["start_ps"]).to_numpy().mean())
    per_device = len(windows) / windows["device"].n_unique()
    share = data.step_ms * PS_PER_MS / max(length, 1.0) / per_device
    earliest = int(np.iinfo(np.int64).min)
    busiest = events.group_by("name").agg(pl.col("dur_ps").sum()).sort("dur_ps", "name")
    last: int = busiest["name"].to_list()[-1]
    return HostTransposes(
        name=timeline.host_names[last],
        events=len(events),
        busy_ms=float(events["dur_ps"].sum()) / PS_PER_MS,
        before_ms=max(it.clip(earliest, first).total for it in hosts) / PS_PER_MS,
        in_steps_ms=sum((intervals & steps).total for intervals in hosts)
        / len(hosts)
        / PS_PER_MS
        * share,
        longest=_longest_within(events, steps),
    )


def _longest_within(events: pl.DataFrame, steps: Intervals) -> tuple[int, ...]:
    start = events["start_ps"].to_numpy()
    inside = steps.covered(start, start + events["dur_ps"].to_numpy()) > 0
    return longest_rows(events.filter(pl.Series(inside)))
