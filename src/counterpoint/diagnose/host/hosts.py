"""One host's side of the steps: what its threads do, as far as a device's idle time asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

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

_TOLD_BY: Final = (Cause.INPUT, Cause.BLOCKED)
"""Where the event that tells the cause is what a user looks for: the loader, not its lock."""

_PLAIN: Final = tuple(
    cause
    for cause in CAUSES
    if cause not in (*_WAITS, Cause.LAUNCHING, Cause.OTHERS, Cause.DEVICE, Cause.UNKNOWN)
)


class Behind(NamedTuple):
    """What stands behind idle time: names are indices into Timeline.host_names."""

    cause: Cause
    giver: int  # the event that tells the cause
    inner: int  # the innermost event

    def text(self, names: Sequence[str]) -> str:
        """The user's line, and what it was in where that is another one."""
        inner, giver = names[self.inner], names[self.giver]
        return inner if inner == giver or self.cause not in _TOLD_BY else f"{inner} in {giver}"


@dataclass(frozen=True, eq=False)
class HostSide:
    """What is known of one host."""

    known: bool  # the thread that launches
    calls: pl.DataFrame  # its events, of the whole profile
    enqueues: pl.DataFrame  # events of all threads that put kernels on streams
    calling: Thread
    others: tuple[Thread, ...]
    beside: dict[Cause, Intervals]  # what the others do

    @cached_property
    def blocked(self) -> Intervals:
        """When the thread that launches waits for what a device computes."""
        return self.calling.during(Cause.BLOCKED)

    def attribute(self, gaps: Intervals, anywhere: Intervals) -> dict[Cause, Intervals]:
        """Cut gaps up by cause; `anywhere`: when any device is busy."""
        found = {cause: gaps & self.calling.during(cause) for cause in _PLAIN}
        recorded = gaps & self.calling.during(*(it for it in CAUSES if it is not Cause.UNKNOWN))
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

    def tops(self, gaps: Intervals) -> dict[Behind, int]:
        """Picoseconds of gaps in each innermost event of the thread that launches.

        Where that is not known, of all threads, and they stand for nothing.
        """
        found: dict[Behind, int] = {}
        for one in (self.calling,) if self.known else self.others:
            inside = gaps.covered(one.start, one.end)
            keys = np.stack([one.cause, one.giver, one.name])[:, inside > 0]
            rows, at = np.unique(keys, axis=1, return_inverse=True)
            sums = np.bincount(at, weights=inside[inside > 0], minlength=rows.shape[1])
            for (cause, giver, name), ps in zip(rows.T.tolist(), sums.tolist(), strict=True):
                behind = Behind(CAUSES[cause] if self.known else Cause.UNKNOWN, giver, name)
                found[behind] = found.get(behind, 0) + int(ps)
        return found


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
    names = timeline.host_names
    threads = tuple(
        thread(one, names, own_cause) for _, one in others.group_by("line", maintain_order=True)
    )
    return HostSide(
        known=line is not None,
        calls=calls,
        enqueues=enqueuing(events, timeline.host_names),
        calling=thread(mine, names, own_cause),
        others=threads,
        beside={cause: _together(threads, cause) for cause in _OTHERS_DO},
    )


def _together(threads: tuple[Thread, ...], cause: Cause) -> Intervals:
    found = EMPTY
    for one in threads:
        found = found | one.during(cause)
    return found
