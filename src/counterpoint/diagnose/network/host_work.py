"""Work of hosts that delays transfers: buffers registered for DMA, data copied on its way.

Before the first step it is start-up and costs no step. In steps it delays what waits for it, by no
more than it takes and no more than devices wait: that bounds what a step could gain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.core.intervals import union
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.exposure.shares import BETWEEN_SLICES, shares_of
from counterpoint.diagnose.network.occasions import with_steps
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.timeline.host_transfers import host_transfers
from counterpoint.timeline.model import Action, Timeline

_MOST: Final = 0.5


@dataclass(frozen=True, slots=True)
class Work:
    """How often, how much, how long: `ms` sums up threads that work side by side."""

    count: float
    bytes: float | None  # null: the profile has no sizes
    ms: float


@dataclass(frozen=True, slots=True)
class HostWork:
    """Work of one kind, of the host that has most of it. Per step: means over steady steps."""

    before: Work  # the first steady step, of all hosts: start-up, warm-up
    own_before: Work  # the same of this host
    per_step: Work
    host: int
    host_ms: float  # per step, of time in which at least one of its threads is at it
    steps: int  # steady ones with such work
    of_steps: int
    first_step: int | None
    largest_bytes: int | None  # of one steady step
    region_bytes: int | None  # the largest buffer registered before all steps
    waits_ms: float  # that devices wait per step: for transfers, where there are any

    @property
    def goes_on(self) -> bool:
        """Whether most steady steps have it: what a few have is an evaluation or a checkpoint."""
        return self.steps > _MOST * self.of_steps

    @property
    def at_most_ms(self) -> float:
        """What a step could gain without it."""
        return min(self.host_ms, self.waits_ms)


def host_work(case: Case, action: Action) -> HostWork | None:
    """Work of one kind; None where the profile shows none, or no steady step."""
    timeline = case.timeline
    rows = timeline.transfers.filter(pl.col("action") == action)
    steady = timeline.steps.filter("steady")
    if not len(rows) or not len(steady):
        return None
    placed = with_steps(timeline, rows)
    first = steady["start_ps"].min()
    inside = placed.filter(pl.col("steady"))
    of_steps = steady["step"].n_unique()
    host, host_ms = _busiest(inside, of_steps)
    own = inside.filter(pl.col("host") == host)
    summed = own.group_by("step").agg(pl.col("bytes").sum())["bytes"].max()
    earlier = placed.filter(pl.col("start_ps") < first)
    return HostWork(
        before=_work(earlier, 1),
        own_before=_work(earlier.filter(pl.col("host") == host), 1),
        per_step=_work(own, of_steps),
        host=host,
        host_ms=host_ms,
        steps=own["step"].n_unique(),
        of_steps=of_steps,
        first_step=_whole(own["step"].min()),
        largest_bytes=_whole(summed) if own["bytes"].null_count() < len(own) else None,
        region_bytes=_region(timeline, host),
        waits_ms=_waits(case),
    )


def _work(rows: pl.DataFrame, steps: int) -> Work:
    sized = rows["bytes"].null_count() < len(rows)
    return Work(
        count=len(rows) / steps,
        bytes=float(rows["bytes"].sum()) / steps if sized else None,
        ms=float(rows["dur_ps"].sum()) / PS_PER_MS / steps,
    )


def _region(timeline: Timeline, host: int) -> int | None:
    """Each chip has the same region registered for itself, so they are not added up."""
    began = timeline.steps["start_ps"].min()
    rows = timeline.transfers.filter(
        (pl.col("host") == host)
        & (pl.col("action") == Action.MAP_BUFFER)
        & (pl.col("start_ps") < began)
    )
    return _whole(rows["bytes"].max())


def _busiest(rows: pl.DataFrame, steps: int) -> tuple[int, float]:
    """The host with most such time, and how much per step; one whose work goes on comes first."""
    found = {0: (False, 0.0)}
    for (host,), part in rows.group_by("host", maintain_order=True):
        start = part["start_ps"].to_numpy()
        busy = union(start, start + part["dur_ps"].to_numpy()).total
        goes_on = part["step"].n_unique() > _MOST * steps
        found[int(str(host))] = (goes_on, busy / PS_PER_MS / steps)
    host = max(found, key=lambda one: found[one])
    return host, found[host][1]


def _waits(case: Case) -> float:
    if len(host_transfers(case.timeline)):
        return sum(row["exposed_ms"] for row in case.ask(shares_of).of(BETWEEN_SLICES))
    return case.step_ms - case.breakdown.compute_ms


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
