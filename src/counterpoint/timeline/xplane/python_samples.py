"""Turns samples of Python's stacks into frames on the threads that were sampled.

`counterpoint run` samples what Python does (capture/agent/stack_sampler.py), since recording every
call makes Python slow. A function that successive samples find is taken to have run from one to the
other, and half the way to the samples that did not find it. What the thread itself recorded is
exact, so a frame that would overlap a recorded event in part begins or ends with it instead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoint.core.frozen import frozen

SAMPLE: Final = "counterpoint sample"
THREAD: Final = "counterpoint thread"
"""Names of annotations: a sample of any thread, and the number of the thread that has this one."""

_LONG_AGO: Final = -(1 << 63)
_NEVER: Final = (1 << 63) - 1

STATS: Final = ("thread", "stack")


@frozen
class Sample:
    """The functions of a thread at a moment, from the outermost on."""

    at_ps: int
    stack: tuple[str, ...]


@frozen
class Frame:
    """A function for as long as samples show it."""

    name: str
    start_ps: int
    end_ps: int


@frozen
class _Found:
    """A frame with its first and its last sample."""

    name: str
    depth: int
    start_ps: int
    end_ps: int
    first_ps: int
    last_ps: int


def frames_of(
    samples: Sequence[Sample], start: NDArray[np.int64], end: NDArray[np.int64]
) -> Iterator[Frame]:
    """Yield the frames of a thread's samples, outer ones first, beside its recorded events."""
    ordered = sorted(samples, key=lambda sample: sample.at_ps)
    recorded = _Recorded(start, end)
    placed: list[tuple[int, int]] = []  # the frames around the next one, and the one before it
    for found in sorted(_found(ordered), key=lambda it: (it.first_ps, it.depth)):
        del placed[found.depth + 1 :]
        low, high = placed[found.depth - 1] if found.depth else (_LONG_AGO, _NEVER)
        if found.depth < len(placed):
            low = max(low, placed.pop()[1])
        begin, until = recorded.bounds(found, low, high)
        placed.append((begin, max(begin, until)))
        if begin < until:
            yield Frame(found.name, begin, until)


def _found(samples: Sequence[Sample]) -> Iterator[_Found]:
    if not samples:
        return
    times = [sample.at_ps for sample in samples]
    apart = [after - before for before, after in pairwise(times)]
    usual = int(median(apart)) if apart else 0
    near = [min(usual, gap) // 2 for gap in apart]  # from a sample to the end of what it shows
    opened: list[tuple[str, int, int]] = []  # name, start, first sample
    for turn, sample in enumerate(samples):
        same = 0
        if turn:
            before = samples[turn - 1].stack
            while same < min(len(before), len(sample.stack)) and before[same] == sample.stack[same]:
                same += 1
            last, over = times[turn - 1], times[turn - 1] + near[turn - 1]
            for depth in range(same, len(opened)):
                yield _Found(
                    opened[depth][0], depth, opened[depth][1], over, opened[depth][2], last
                )
            del opened[same:]
        since = sample.at_ps - (near[turn - 1] if turn else usual // 2)
        opened.extend((name, since, sample.at_ps) for name in sample.stack[same:])
    last = times[-1]
    for depth, (name, since, first) in enumerate(opened):
        yield _Found(name, depth, since, last + usual // 2, first, last)


class _Recorded:
    """The recorded events of a thread, which nest."""

    def __init__(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> None:
        order = np.lexsort((-end, start))
        self._start: list[int] = start[order].tolist()
        self._end: list[int] = end[order].tolist()
        self._parent: list[int] = []
        stack: list[int] = []
        for row, begin in enumerate(self._start):
            while stack and self._end[stack[-1]] <= begin:
                stack.pop()
            self._parent.append(stack[-1] if stack else -1)
            stack.append(row)

    def bounds(self, found: _Found, low: int, high: int) -> tuple[int, int]:
        """Return when a frame began and ended, within limits and without cutting an event.

        If all its samples are in that event, so is the frame; if some are, it is around it.
        """
        begin, until = max(found.start_ps, low), min(found.end_ps, high)
        if begin >= until:
            return begin, begin
        while (cut := self._cut(begin, until)) is not None:
            start, end = self._start[cut], self._end[cut]
            if found.last_ps < end:
                until = end
            else:
                begin = start if found.first_ps < end and start >= low else end
        while (cut := self._cut(until, begin)) is not None:
            start, end = self._start[cut], self._end[cut]
            if found.first_ps > start:
                begin = start
            else:
                until = end if found.last_ps > start and end <= high else start
        return begin, until

    def _cut(self, at_ps: int, other_ps: int) -> int | None:
        """Return the outermost event around a time that is not around the other."""
        row, found = bisect_left(self._start, at_ps) - 1, None
        while row >= 0:
            if self._end[row] > at_ps and not (self._start[row] <= other_ps <= self._end[row]):
                found = row
            row = self._parent[row]
        return found
