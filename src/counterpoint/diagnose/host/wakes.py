"""Which thread the launching thread waited for: the one that was at work when the wait ended.

A queue, a lock or a future does not record who fills, holds or computes it. But whoever does has to
release it, so that thread begins something just before the wait ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoint.core.columns import EMPTY, Intervals, union
from counterpoint.diagnose.host.threads import Named, Thread

Longs = NDArray[np.int64]
Done = dict[tuple[int, int], int]
"""Picoseconds by what a thread did: the innermost event and the one around it that names it."""

_NEAR_PS: Final = 500_000_000
"""The thread that ends a wait begins something at most this long before its end."""

_LONG_PS: Final = 1_000_000_000
"""Shorter silence is not looked into, and no shorter event explains it."""

_EXACTLY: Final = 20
"""Silence ends with an event if this part of its length, or less, lies between the two ends."""

_MOSTLY: Final = 0.5
"""Least share of the silence that ends with events of other threads, if it is a wait."""

_LINKS: Final = 2
"""Threads that only hand on what they wait for: those of a pool, of a prefetching iterator."""

_NOBODY: Final = -1


@dataclass(frozen=True, eq=False)
class Wakes:
    """What other threads did while a thread waited for them."""

    waiting: Thread
    others: tuple[Thread, ...]
    names: Named

    @cached_property
    def waits(self) -> Intervals:
        """When the thread is in a call that waits for another."""
        chosen = self.names.for_thread[self.waiting.name]
        return union(self.waiting.start[chosen], self.waiting.end[chosen])

    def of_waits(self, gaps: Intervals, links: int = _LINKS) -> Done:
        """Return what threads did that ended the waits in these gaps.

        A thread that waited in turn is followed to the one that ended its wait, a few times.
        """
        pieces = gaps & self.waits
        return self._done(pieces, self._last_to_begin(pieces), links) if len(pieces) else {}

    def in_silence(self, silence: Intervals) -> tuple[Intervals, Done]:
        """Return the parts of a thread's silence that were waits, and what they were for.

        A lock that is taken by `with` leaves no event. Silence is a wait if it ends with a long
        event of another thread, more often than chance would have it.
        """
        long = silence.end - silence.start > _LONG_PS
        pieces = Intervals(silence.start[long], silence.end[long])
        if not len(pieces) or not self._python:
            return EMPTY, {}
        chosen = self._ending_with(pieces)
        known = chosen != _NOBODY
        waits = union(pieces.start[known], pieces.end[known])
        if waits.total < _MOSTLY * silence.total:
            return EMPTY, {}
        return waits, self._done(pieces, chosen, _LINKS)

    @cached_property
    def _python(self) -> tuple[Thread, ...]:
        """The other threads that run Python."""
        return tuple(one for one in self.others if self.names.traced[one.name].any())

    def _last_to_begin(self, pieces: Intervals) -> Longs:
        """Return by piece the thread that began something last before its end."""
        latest = np.full(len(pieces), np.iinfo(np.int64).min)
        chosen = np.full(len(pieces), _NOBODY)
        for index, thread in enumerate(self._python):
            last = np.searchsorted(thread.start, pieces.end, side="left") - 1
            begun = np.where(last >= 0, thread.start[np.maximum(last, 0)], latest)
            later = (begun > latest) & (pieces.end - begun <= _NEAR_PS)
            chosen[later], latest[later] = index, begun[later]
        return chosen

    def _ending_with(self, pieces: Intervals) -> Longs:
        """Return by piece the thread of which a long event ends with it."""
        near = (pieces.end - pieces.start) // _EXACTLY
        chosen = np.full(len(pieces), _NOBODY)
        for index, thread in enumerate(self._python):
            long = thread.end - thread.start > _LONG_PS
            ends = thread.end[long]
            last = np.searchsorted(ends, pieces.end + near, side="right") - 1
            if len(ends):
                fits = (last >= 0) & (ends[np.maximum(last, 0)] >= pieces.end - near)
                chosen[fits & (chosen == _NOBODY)] = index
        return chosen

    def _done(self, pieces: Intervals, chosen: Longs, links: int) -> Done:
        """Return what each thread did in the pieces for which it was chosen."""
        done: Done = {}
        for index, thread in enumerate(self._python):
            own = Intervals(pieces.start[chosen == index], pieces.end[chosen == index])
            if not len(own):
                continue
            if links and (awaited := self._in_turn(thread, own, links)):
                for event, ps in awaited.items():
                    done[event] = done.get(event, 0) + ps
                continue
            rows = thread.rows_in(own)
            inside = own.covered(thread.start[rows], thread.end[rows])
            many = len(self.names.traced)
            kinds, kind = np.unique(
                thread.name[rows] * many + thread.giver[rows], return_inverse=True
            )
            sums = np.bincount(kind, weights=inside).astype(np.int64)
            for key, ps in zip(kinds.tolist(), sums.tolist(), strict=True):
                event = (key // many, key % many)
                done[event] = done.get(event, 0) + ps
        return done

    def _in_turn(self, thread: Thread, times: Intervals, links: int) -> Done:
        """Return what others did while this one waited for them, if it mostly did."""
        others = tuple(other for other in self.others if other is not thread)
        inner = Wakes(thread, others, self.names)
        if (times & inner.waits).total < _MOSTLY * times.total:
            return {}
        return inner.of_waits(times, links - 1)
