"""One host's side of the steps: what its threads do, as far as a device's idle time asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from counterpoint.core.intervals import EMPTY, Intervals
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.host.causes import Cause, causes_of
from counterpoint.diagnose.host.launches import calling_line, enqueuing
from counterpoint.diagnose.host.threads import CAUSES, Thread, thread

_WAITS: Final = (Cause.BLOCKED, Cause.RUNTIME)
_OTHERS_DO: Final = (Cause.COMPILE, Cause.DISPATCH, Cause.TRANSFER)
"""What another thread may do for the one that launches, the rarest first."""

_PLAIN: Final = tuple(
    cause
    for cause in CAUSES
    if cause not in (*_WAITS, Cause.LAUNCHING, Cause.OTHERS, Cause.DEVICE, Cause.UNKNOWN)
)


@dataclass(frozen=True, eq=False)
class HostSide:
    """What is known of one host."""

    known: bool  # the thread that launches
    calls: pl.DataFrame  # its events, of the whole profile
    enqueues: pl.DataFrame  # events of all threads that put kernels on streams
    calling: Thread
    beside: dict[Cause, Intervals]  # what the other threads do

    @cached_property
    def blocked(self) -> Intervals:
        """When the thread that launches waits for what a device computes."""
        return self.calling.during(Cause.BLOCKED)

    def attribute(self, gaps: Intervals, anywhere: Intervals) -> dict[Cause, Intervals]:
        """Cut gaps up by cause; `anywhere`: when any device is busy."""
        found = {cause: gaps & self.calling.during(cause) for cause in _PLAIN}
        recorded = gaps & self.calling.during(*CAUSES)
        waiting = gaps & self.calling.during(*_WAITS)
        left = waiting | (gaps - recorded)
        found[Cause.OTHERS] = waiting & anywhere
        left = left - found[Cause.OTHERS]
        for cause in _OTHERS_DO:
            doing = left & self.beside.get(cause, EMPTY)
            found[cause] = found[cause] | doing
            left = left - doing
        for cause in _WAITS:
            found[cause] = left & self.calling.during(cause)
        found[Cause.UNKNOWN] = left - waiting
        return found

    def tops(self, gaps: Intervals) -> dict[tuple[Cause, int], int]:
        """Picoseconds of gaps in each innermost event of the thread that launches, by cause."""
        inside = gaps.covered(self.calling.start, self.calling.end)
        key = self.calling.name * len(CAUSES) + self.calling.cause
        keys, at = np.unique(key[inside > 0], return_inverse=True)
        sums = np.bincount(at, weights=inside[inside > 0], minlength=len(keys)).astype(np.int64)
        return {
            (CAUSES[int(one) % len(CAUSES)], int(one) // len(CAUSES)): int(ps)
            for one, ps in zip(keys, sums, strict=True)
        }


def host_side(case: Case, host: int) -> HostSide:
    """Read one host's events around the typical steps."""
    timeline, windows = case.timeline, case.selection.windows
    everything = events = timeline.host_events.filter(pl.col("host") == host)
    if len(windows) and len(events):
        first, last = windows["start_ps"].min(), windows["end_ps"].max()
        end = pl.col("start_ps") + pl.col("dur_ps")
        events = events.filter((end > first) & (pl.col("start_ps") < last))
    line = calling_line(events, timeline.host_names)
    own_cause = causes_of(timeline.host_names)
    others = events.filter(pl.col("line") != line) if line is not None else events
    mine = events.filter(pl.col("line") == line) if line is not None else events.clear()
    # Calls are matched with runs by counting: those outside of the windows count, too.
    calls = everything.filter(pl.col("line") == line) if line is not None else mine
    threads = [thread(one, own_cause) for (_,), one in others.group_by("line")]
    return HostSide(
        known=line is not None,
        calls=calls,
        enqueues=enqueuing(events, timeline.host_names),
        calling=thread(mine, own_cause),
        beside={cause: _together(threads, cause) for cause in _OTHERS_DO},
    )


def _together(threads: list[Thread], cause: Cause) -> Intervals:
    found = EMPTY
    for one in threads:
        found = found | one.during(cause)
    return found
