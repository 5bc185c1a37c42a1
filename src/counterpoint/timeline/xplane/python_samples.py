"""Turns samples of Python's stacks into frames on the threads that were sampled.

`counterpoint run` samples what Python does (capture/agent/stack_sampler.py), since recording every
call makes Python slow. A function that successive samples find is taken to have run from one to the
other. Between two samples that differ, what the thread itself recorded tells when it turned to
something else: the end of an event that was around the first, or the start of one around the
second; else it is half the way. Recorded events are exact, so a frame that would overlap one in
part begins or ends with it instead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoint.timeline.recording import WORKS_IN_NATIVE_CODE, WORKS_IN_PYTHON

SAMPLE: Final = "counterpoint sample"
THREAD: Final = "counterpoint thread"
"""Names of annotations: a sample of any thread, and the number of the thread that has this one."""

_RARE: Final = 2
"""Functions in two samples that are so many times as far apart as usual, with events in between,
may have been called twice."""

_LONG_AGO: Final = -(1 << 63)
_NEVER: Final = (1 << 63) - 1

STATS: Final = ("thread", "stack", "ran", "waited", "python")

_WORKS: Final = 0.5
"""A thread works if it runs in this share of the time in which it does not wait for a core."""

_TOGETHER_PS: Final = 50_000_000_000
"""So far apart are the samples that tell it: Linux counts a wait when it ends."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The functions of a thread at a moment, from the outermost on.

    With the time that it had run and waited for a core by then, None if that was not recorded; and
    whether it was found between two bytecodes, where it had the interpreter's lock.
    """

    at_ps: int
    stack: tuple[str, ...]
    ran_us: int | None = None
    waited_us: int | None = None
    in_python: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """A function for as long as samples show it."""

    name: str
    start_ps: int
    end_ps: int


@dataclass(frozen=True, slots=True)
class _SampledFrame:
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
    for frame in sorted(_sampled_frames(ordered, recorded), key=lambda it: (it.first_ps, it.depth)):
        del placed[frame.depth + 1 :]
        low, high = placed[frame.depth - 1] if frame.depth else (_LONG_AGO, _NEVER)
        if frame.depth < len(placed):
            low = max(low, placed.pop()[1])
        begin, until = recorded.bounds(frame, low, high)
        placed.append((begin, max(begin, until)))
        if begin < until:
            yield Frame(frame.name, begin, until)


def work_of(samples: Sequence[Sample]) -> Iterator[Frame]:
    """Yield when a thread worked, and whether in Python or in native code, by its samples."""
    known = [it for it in samples if it.ran_us is not None and it.waited_us is not None]
    ordered = sorted(known, key=lambda sample: sample.at_ps)
    first = 0
    for last, sample in enumerate(ordered):
        is_end = last == len(ordered) - 1
        if last == first or not (is_end or sample.at_ps - ordered[first].at_ps >= _TOGETHER_PS):
            continue
        if _works(ordered[first], sample):
            in_python = sum(each.in_python for each in ordered[first + 1 : last + 1])
            name = WORKS_IN_PYTHON if 2 * in_python > last - first else WORKS_IN_NATIVE_CODE
            yield Frame(name, ordered[first].at_ps, sample.at_ps)
        first = last


def _works(before: Sample, after: Sample) -> bool:
    ran_ps = ((after.ran_us or 0) - (before.ran_us or 0)) * 1_000_000
    waited_ps = ((after.waited_us or 0) - (before.waited_us or 0)) * 1_000_000
    return ran_ps > max(0.0, _WORKS * (after.at_ps - before.at_ps - waited_ps))


def _sampled_frames(samples: Sequence[Sample], recorded: _Recorded) -> Iterator[_SampledFrame]:
    times = [sample.at_ps for sample in samples]
    usual = int(median([after - before for before, after in pairwise(times)] or [0]))
    opened: list[tuple[str, int, int]] = []  # name, start, first sample
    before: Sample | None = None
    for sample in samples:
        same, since = 0, sample.at_ps - usual // 2
        if before is not None:
            rare = sample.at_ps - before.at_ps > _RARE * usual
            if not (rare and recorded.between(before.at_ps, sample.at_ps)):
                same = in_common(before.stack, sample.stack)
            over, since = recorded.change(before.at_ps, sample.at_ps, usual)
            for depth, (name, began, first) in enumerate(opened[same:], start=same):
                yield _SampledFrame(name, depth, began, over, first, before.at_ps)
            del opened[same:]
        opened.extend((name, since, sample.at_ps) for name in sample.stack[same:])
        before = sample
    if before is not None:
        for depth, (name, began, first) in enumerate(opened):
            yield _SampledFrame(name, depth, began, before.at_ps + usual // 2, first, before.at_ps)


def in_common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return how many of the outermost functions are the same."""
    unlike = (
        depth for depth, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]
    )
    return next(unlike, min(len(one), len(other)))


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

    def change(self, last_ps: int, first_ps: int, usual_ps: int) -> tuple[int, int]:
        """Return when the thread left what one sample found, and began what the next one found."""
        left, right = self._cut(last_ps, first_ps), self._cut(first_ps, last_ps)
        ended = None if left is None else self._end[left]
        begun = None if right is None else self._start[right]
        between = self.between(ended or last_ps, begun or first_ps)
        if len(between):
            ended = ended or self._start[between[0]]
            begun = begun or max(self._end[row] for row in between)
        if ended is not None and begun is not None:
            return ended, max(ended, begun)
        if ended is not None or begun is not None:
            at_ps = ended or begun or 0
            return at_ps, at_ps
        near = min(usual_ps, first_ps - last_ps) // 2
        return last_ps + near, first_ps - near

    def between(self, since_ps: int, until_ps: int) -> range:
        """Return the rows of events that begin in this time, which none is around in part."""
        return range(bisect_left(self._start, since_ps), bisect_left(self._start, until_ps))

    def bounds(self, frame: _SampledFrame, low: int, high: int) -> tuple[int, int]:
        """Return when a frame began and ended, within limits and without cutting an event.

        If all its samples are in that event, so is the frame; if some are, it is around it.
        """
        begin, until = max(frame.start_ps, low), min(frame.end_ps, high)
        if begin >= until:
            return begin, begin
        while (cut := self._cut(begin, until)) is not None:
            start, end = self._start[cut], self._end[cut]
            if frame.last_ps < end:
                until = end
            else:
                begin = start if frame.first_ps < end and start >= low else end
        while (cut := self._cut(until, begin)) is not None:
            start, end = self._start[cut], self._end[cut]
            if frame.first_ps > start:
                begin = start
            else:
                until = end if frame.last_ps > start and end <= high else start
        return begin, until

    def _cut(self, at_ps: int, other_ps: int) -> int | None:
        """Return the outermost event around a time that is not around the other."""
        row, outermost = bisect_left(self._start, at_ps) - 1, None
        while row >= 0:
            if self._end[row] > at_ps and not (self._start[row] <= other_ps <= self._end[row]):
                outermost = row
            row = self._parent[row]
        return outermost
