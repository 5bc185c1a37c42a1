"""Threads beside the launching one that work nearly all the time, and what that costs the step.

A thread that runs Python holds the interpreter's lock: the launching thread gets it back only every
few milliseconds. A thread in native code takes a core; where devices are virtual and share the
cores, from the devices, too.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from counterpoint.core.columns import EMPTY, Intervals
from counterpoint.core.frozen import frozen
from counterpoint.diagnose.host.causes import CAUSES, IdleCause
from counterpoint.diagnose.host.threads import TRACED, Thread

BUSY: Final = 0.5
"""Share of the time from which on a thread is busy."""

_WORKS: Final = (CAUSES.index(IdleCause.PYTHON), CAUSES.index(IdleCause.INPUT))

_HOLDS_LOCK: Final = re.compile(r"^\$(?:\S+\.py:\d+|builtins) ")
"""Frames and built-in functions run under the interpreter's lock; other native code may not."""

_RESTS: Final = re.compile(
    r"^\$(?:time sleep|select\b.*|\S+ (?:acquire|wait\w*|join|get|put|poll|select|accept|recv\w*"
    r"|read\w*|write\w*|flush|fsync|sleep|run_forever|_run_once))$"
)
"""Calls in which a thread may well do nothing."""


@frozen(eq=False)
class BusyThread:
    """A thread that works in more than half of the time of the steps."""

    share: float
    works: Intervals
    holds_lock: bool  # the interpreter's, in most of that time
    what: dict[int, int]  # picoseconds by event, as indices into Timeline.host_names


def busy_thread(thread: Thread, names: tuple[str, ...], times: Intervals) -> BusyThread | None:
    """Return what a thread works on in these times; None if it is not busy."""
    if not len(thread.start) or not times.total:
        return None
    works = np.isin(thread.cause, _WORKS)
    known, of = np.unique(thread.name, return_inverse=True)
    can_work = [
        names[index].startswith(TRACED) and not _RESTS.search(names[index])
        for index in known.tolist()
    ]
    works &= np.array(can_work, bool)[of]
    if not works.any():
        return None
    inside = Intervals(thread.start[works], thread.end[works]) & times
    share = inside.total / times.total
    if share < BUSY:
        return None
    giver = thread.giver[works]
    ps = times.covered(thread.start[works], thread.end[works])
    kinds, kind = np.unique(giver, return_inverse=True)
    sums = np.bincount(kind, weights=ps).astype(np.int64)
    locks = [_HOLDS_LOCK.search(names[index]) is not None for index in known.tolist()]
    under_lock = int(ps[np.array(locks, bool)[of[works]]].sum())
    what = dict(zip(kinds.tolist(), sums.tolist(), strict=True))
    return BusyThread(share, inside, 2 * under_lock > inside.total, what)


def locked(threads: tuple[BusyThread, ...]) -> Intervals:
    """Return when any of those works that hold the interpreter's lock."""
    found = EMPTY
    for one in threads:
        if one.holds_lock:
            found = found | one.works
    return found
