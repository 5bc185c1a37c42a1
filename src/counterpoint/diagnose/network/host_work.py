"""Host work that delays transfers: registering buffers for DMA, copying data on its way.

Before the first step it is startup and costs no step. In steps it delays what waits for it, by no
more than its duration and no more than devices wait: that bounds what a step could gain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core import Range, Unknown
from counterpoint.core.columns import Intervals, union
from counterpoint.diagnose.exposure.causes import BETWEEN_SLICES, shares_of
from counterpoint.diagnose.finding import MIN_REPORTED_SHARE, ms_text
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.diagnose.step_data import StepData, longest_rows
from counterpoint.timeline.host_transfers import host_transfers
from counterpoint.timeline.model import Action, Timeline

_WORK: Final = (Action.MAP_BUFFER, Action.MEMORY_COPY)

_MOST: Final = 0.5


def host_busy(timeline: Timeline) -> Mapping[int, Intervals]:
    """Return, by host, the time in which at least one of its threads does such work."""
    work = timeline.transfers.filter(pl.col("action").is_in([*_WORK]))
    busy_of: dict[int, Intervals] = {}
    for (host,), rows in work.group_by("host"):
        start = rows["start_ps"].to_numpy()
        busy_of[int(str(host))] = union(start, start + rows["dur_ps"].to_numpy())
    return busy_of


def spent_within(
    busy: Mapping[int, Intervals], hosts: NDArray[np.int64], start: pl.Series, end: pl.Series
) -> NDArray[np.int64]:
    """Return picoseconds of each interval in which its own host did such work."""
    spent = np.zeros(len(hosts), np.int64)
    for host, intervals in busy.items():
        own = hosts == host
        spent[own] = intervals.covered(start.to_numpy()[own], end.to_numpy()[own])
    return spent


def with_steps(timeline: Timeline, rows: pl.DataFrame) -> pl.DataFrame:
    """Add `step` and `steady` to rows of Timeline.transfers; null before and after all steps.

    Rows are assigned by their start, in the steps of the host's first device.
    """
    host_of = {index: device.host for index, device in enumerate(timeline.devices)}
    steps = (
        timeline.steps.with_columns(
            host=pl.col("device").replace_strict(host_of, return_dtype=pl.UInt16)
        )
        .filter(pl.col("device") == pl.col("device").min().over("host"))
        .select("host", "step", "steady", began_ps="start_ps", ended_ps="end_ps")
        .sort("began_ps")
    )
    inside = pl.col("start_ps") < pl.col("ended_ps")
    return (
        rows.sort("start_ps")
        .join_asof(
            steps,
            left_on="start_ps",
            right_on="began_ps",
            by="host",
            strategy="backward",
            check_sortedness=False,
        )
        .with_columns(pl.when(inside).then(pl.col("step", "steady")))
        .drop("began_ps", "ended_ps")
    )


@dataclass(frozen=True, slots=True)
class WorkTotals:
    """Count, bytes and duration; `ms` adds up threads that work in parallel."""

    count: float
    bytes: float | None  # null: the profile has no sizes
    ms: float


@dataclass(frozen=True, slots=True)
class HostWork:
    """Work of one kind, of the host with most of it. Per step: means over steady steps."""

    before: WorkTotals  # before the first steady step, of this host: startup, warmup
    per_step: WorkTotals
    host: int
    host_ms: float  # per step, in which at least one of its threads works
    steps: int  # number of steady steps with such work
    of_steps: int
    first_step: int | None
    largest_bytes: int | None  # of one steady step
    region_bytes: int | None  # the largest buffer registered before all steps
    waits_ms: float  # device wait per step: for transfers, if there are any
    longest: tuple[int, ...]  # rows of Timeline.transfers, of this host in steady steps

    @property
    def goes_on(self) -> bool:
        """True if most steady steps have it: otherwise it is an evaluation or a checkpoint."""
        return self.steps > _MOST * self.of_steps

    @property
    def at_most_ms(self) -> float:
        """Upper bound of the gain of a step without it."""
        return min(self.host_ms, self.waits_ms)

    def saves_ms(self, step_ms: float) -> Range | Unknown | None:
        """Return what a step could gain; Unknown if it is all hidden; None: not worth a word.

        What is hidden today is a symptom nevertheless: it shows as soon as the step has less slack.
        """
        if self.at_most_ms > MIN_REPORTED_SHARE * step_ms:
            return Range(0.0, self.at_most_ms)
        if self.host_ms > MIN_REPORTED_SHARE * step_ms:
            return Unknown(
                f"hidden today: the {ms_text(self.host_ms)} delay transfers that nothing waits for"
            )
        return None


def sized(amount: float | None) -> str:
    """Return the size of buffers, in parentheses."""
    if amount is None:
        return " of unknown size"
    if amount < 1e6:
        return f" ({amount:,.0f} bytes)"
    return f" ({amount / 1e6:,.1f} MB)"


def host_work(data: StepData, action: Action) -> HostWork | None:
    """Return the work of one kind; None if the profile has none, or no steady step."""
    timeline = data.timeline
    rows = timeline.transfers.with_row_index("row").filter(pl.col("action") == action)
    steady = timeline.steps.filter("steady")
    if not len(rows) or not len(steady):
        return None
    placed = with_steps(timeline, rows)
    first = steady["start_ps"].min()
    inside = placed.filter(pl.col("steady"))
    of_steps = steady["step"].n_unique()
    earlier = placed.filter(pl.col("start_ps") < first)
    host, host_ms = _busiest(inside, of_steps) if len(inside) else (_busiest(earlier, 1)[0], 0.0)
    own = inside.filter(pl.col("host") == host)
    summed = own.group_by("step").agg(pl.col("bytes").sum())["bytes"].max()
    return HostWork(
        before=_work(earlier.filter(pl.col("host") == host), 1),
        per_step=_work(own, of_steps),
        host=host,
        host_ms=host_ms,
        steps=own["step"].n_unique(),
        of_steps=of_steps,
        first_step=_whole(own["step"].min()),
        largest_bytes=_whole(summed) if own["bytes"].null_count() < len(own) else None,
        region_bytes=_region(timeline, host),
        waits_ms=_waits(data),
        longest=longest_rows(own),
    )


def _work(rows: pl.DataFrame, steps: int) -> WorkTotals:
    sized = rows["bytes"].null_count() < len(rows)
    return WorkTotals(
        count=len(rows) / steps,
        bytes=float(rows["bytes"].sum()) / steps if sized else None,
        ms=float(rows["dur_ps"].sum()) / PS_PER_MS / steps,
    )


def _region(timeline: Timeline, host: int) -> int | None:
    """Return the largest region: each chip registers the same one, so they are not added up."""
    began = timeline.steps["start_ps"].min()
    rows = timeline.transfers.filter(
        (pl.col("host") == host)
        & (pl.col("action") == Action.MAP_BUFFER)
        & (pl.col("start_ps") < began)
    )
    return _whole(rows["bytes"].max())


def _busiest(rows: pl.DataFrame, steps: int) -> tuple[int, float]:
    """Return the host with most work time, and the time per step; hosts with regular work first."""
    work_of = {0: (False, 0.0)}
    for (host,), part in rows.group_by("host", maintain_order=True):
        start = part["start_ps"].to_numpy()
        busy = union(start, start + part["dur_ps"].to_numpy()).total
        goes_on = part["step"].n_unique() > _MOST * steps
        work_of[int(str(host))] = (goes_on, busy / PS_PER_MS / steps)
    host = max(work_of, key=lambda number: work_of[number])
    return host, work_of[host][1]


def _waits(data: StepData) -> float:
    if len(host_transfers(data.timeline)):
        return sum(row["exposed_ms"] for row in data.cached(shares_of).of(BETWEEN_SLICES))
    return data.step_ms - data.breakdown.compute_ms


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def union_of(events: pl.DataFrame) -> Intervals:
    """Return the time in which at least one event is running."""
    start = events["start_ps"].to_numpy()
    return union(start, start + events["dur_ps"].to_numpy())
