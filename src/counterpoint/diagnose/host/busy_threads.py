"""Threads beside the launching one that work nearly all the time, and what that costs the step.

A thread that runs Python holds the interpreter's lock: the launching thread gets it back only every
few milliseconds. A thread in native code takes a core; where devices are virtual and share the
cores, from the devices, too. Calls that the Python tracer recorded tell what a thread works on;
where stacks are sampled, the time for which it ran tells whether it works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from counterpoint.core.columns import EMPTY, Intervals, union
from counterpoint.diagnose.host.causes import CAUSES, IdleCause
from counterpoint.diagnose.host.threads import Named, Thread

BUSY: Final = 0.5
"""Share of the time from which on a thread is busy."""

_WORKS: Final = (CAUSES.index(IdleCause.PYTHON), CAUSES.index(IdleCause.INPUT))


@dataclass(frozen=True, slots=True, eq=False)
class BusyThread:
    """A thread that works in more than half of the time of the steps."""

    share: float
    works: Intervals
    holds_lock: bool  # the interpreter's, in most of that time
    what: dict[int, int]  # picoseconds by event, as indices into Timeline.host_names


def busy_thread(thread: Thread, names: Named, times: Intervals) -> BusyThread | None:
    """Return what a thread works on in these times; None if it is not busy."""
    if not len(thread.start) or not times.total:
        return None
    works = np.isin(thread.cause, _WORKS) & (names.traced & ~names.rests)[thread.name]
    # A call that goes on where the profile begins or ends is not recorded, though its caller is.
    works[[0, -1]] &= ~names.frame[thread.name[[0, -1]]]
    inside = union(thread.start[works], thread.end[works]) & times
    share = inside.total / times.total
    if share < BUSY:
        return None
    ps = times.covered(thread.start[works], thread.end[works])
    kinds, kind = np.unique(thread.giver[works], return_inverse=True)
    sums = np.bincount(kind, weights=ps).astype(np.int64)
    under_lock = int(ps[names.under_lock[thread.name[works]]].sum())
    what = dict(zip(kinds.tolist(), sums.tolist(), strict=True))
    return BusyThread(share, inside, 2 * under_lock > inside.total, what)


def sampled_busy_thread(
    thread: Thread, work: tuple[Intervals, Intervals], names: Named, times: Intervals
) -> BusyThread | None:
    """Return what a sampled thread works on in these times; None if it is not busy.

    `work` is when it does: in Python, and in native code.
    """
    in_python, native = (own & times for own in work)
    works = in_python | native
    share = works.total / times.total if times.total else 0.0
    if share < BUSY or not len(thread.start):
        return None
    traced = names.traced[thread.giver]
    ps = works.covered(thread.start[traced], thread.end[traced])
    kinds, kind = np.unique(thread.giver[traced], return_inverse=True)
    sums = np.bincount(kind, weights=ps).astype(np.int64)
    what = dict(zip(kinds.tolist(), sums.tolist(), strict=True))
    return BusyThread(share, works, 2 * in_python.total > works.total, what) if what else None


def locked(threads: tuple[BusyThread, ...]) -> Intervals:
    """Return when any of those works that hold the interpreter's lock."""
    busy = EMPTY
    for one in threads:
        if one.holds_lock:
            busy = busy | one.works
    return busy
