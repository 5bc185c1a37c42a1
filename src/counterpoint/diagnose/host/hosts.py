"""One host's side of the steps: what its threads do while devices are idle."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from counterpoint.core.columns import EMPTY, Intervals, union
from counterpoint.core.threads import on_threads
from counterpoint.diagnose.host.busy_threads import (
    BusyThread,
    busy_thread,
    locked,
    sampled_busy_thread,
)
from counterpoint.diagnose.host.causes import CAUSES, IdleCause, matching, own_causes
from counterpoint.diagnose.host.launches import calling_names, functions_of
from counterpoint.diagnose.host.profiler import traces_python
from counterpoint.diagnose.host.threads import Named, Thread, named, thread
from counterpoint.diagnose.host.wakes import Wakes
from counterpoint.diagnose.selection import device_slices
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.recording import WORKS_IN_NATIVE_CODE, WORKS_IN_PYTHON
from counterpoint.timeline.step_range import CALL

_WAITS: Final = (IdleCause.BLOCKED, IdleCause.RUNTIME)
_OTHERS_DO: Final = (IdleCause.COMPILE, IdleCause.DISPATCH, IdleCause.TRANSFER)
"""Causes by which another thread may explain a wait of the launching thread, rarest first."""

_NAMED_BY_OUTER: Final = (
    IdleCause.INPUT,
    IdleCause.BLOCKED,
    IdleCause.THREAD,
    IdleCause.PYTHON,
)
"""Causes for which the innermost event is what users look for: the loader, not its lock."""

_PLAIN: Final = tuple(
    cause
    for cause in CAUSES
    if cause
    not in (
        *_WAITS,
        IdleCause.LAUNCHING,
        IdleCause.EAGER,
        IdleCause.SETTLING,
        IdleCause.CONTENDED,
        IdleCause.OTHERS,
        IdleCause.DEVICE,
        IdleCause.UNMATCHED,
        IdleCause.UNKNOWN,
    )
)

_CALLS: Final = (
    CALL,
    re.compile(r"PJRT_LoadedExecutable_Execute|LoadedExecutable::Execute$|ExecuteReplicated"),
    re.compile(
        r"XlaModule:|GpuExecutable::ExecuteThunks|^(?:cu|cuda|hip)(?:Ext)?(?:Module)?Launch"
    ),
)
"""The most reliable sign first."""

_ENQUEUES: Final = re.compile(r"ExecuteThunks|EnqueueExecution|XlaModule:|XLA GPU module")
"""Events that enqueue a program's kernels on the device's streams, in order."""


_NOTICE_PS: Final = 100_000_000
"""Until then a host has notice that a result is ready."""


class IdleEvent(NamedTuple):
    """The cause of idle time and its events: names are indices into Timeline.host_names."""

    cause: IdleCause
    giver: int  # the event that determines the cause
    inner: int  # the innermost event

    def text(self, names: Sequence[str]) -> str:
        """Return the innermost event, with the event that determined the cause if it is another."""
        inner, giver = names[self.inner], names[self.giver]
        return (
            inner if inner == giver or self.cause not in _NAMED_BY_OUTER else f"{inner} in {giver}"
        )


@dataclass(frozen=True, eq=False)
class HostActivity:
    """The events of one host around the typical steps."""

    names: Sequence[str]  # Timeline.host_names
    named: Named
    known: bool  # the launching thread is known
    calls: pl.DataFrame  # of jitted functions, by any thread, of the whole profile
    enqueues: pl.DataFrame  # events of all threads that put kernels on streams
    calling: Thread
    others: tuple[Thread, ...]
    beside: dict[IdleCause, Intervals]  # when the other threads do what
    busy: tuple[BusyThread, ...]  # of the other threads, those that work nearly all the time
    stands: Intervals  # when the launching thread does not run, by its samples
    spent: dict[tuple[IdleCause, ...], Intervals] = field(
        default_factory=dict[tuple[IdleCause, ...], Intervals], init=False, repr=False
    )

    def during(self, *causes: IdleCause) -> Intervals:
        """Return when the launching thread does any of these."""
        if causes not in self.spent:
            self.spent[causes] = self.calling.during(*causes)
        return self.spent[causes]

    @cached_property
    def wakes(self) -> Wakes:
        """What other threads did while the launching thread waited for them."""
        return Wakes(self.calling, self.others, self.named)

    @cached_property
    def blocked(self) -> Intervals:
        """The intervals in which the launching thread waits for a device's results."""
        return self.during(IdleCause.BLOCKED)

    def attribute(
        self, gaps: Intervals, anywhere: Intervals, *, virtual: bool = False
    ) -> dict[IdleCause, Intervals]:
        """Split gaps by cause; `anywhere`: when any device is busy; `virtual`: of a CPU device."""
        if not len(gaps):
            return {}
        by_cause = {cause: gaps & self.during(cause) for cause in _PLAIN}
        recorded = gaps & self.during(
            *(cause for cause in CAUSES if cause is not IdleCause.UNKNOWN)
        )
        waiting = gaps & self.during(*_WAITS)
        left = waiting | (gaps - recorded)
        by_cause[IdleCause.OTHERS] = waiting & anywhere
        left = left - by_cause[IdleCause.OTHERS]
        for_copies = left & waiting & self.calling.for_copies
        by_cause[IdleCause.TRANSFER] = by_cause[IdleCause.TRANSFER] | for_copies
        left = left - for_copies
        settling = left & self._until_ready(gaps) if virtual else EMPTY
        by_cause[IdleCause.SETTLING] = settling
        left = left - settling
        for cause in _OTHERS_DO:
            doing = left & self.beside.get(cause, EMPTY)
            by_cause[cause] = by_cause[cause] | doing
            left = left - doing
        for cause in _WAITS:
            by_cause[cause] = left & self.during(cause)
        by_cause[IdleCause.UNKNOWN] = left - waiting
        # A method that waits for a copy is no function of Python: samples show who called it.
        called = by_cause[IdleCause.PYTHON] & self.stands & self.calling.since_copies
        copying = called & self.beside.get(IdleCause.TRANSFER, EMPTY)
        by_cause[IdleCause.TRANSFER] = by_cause[IdleCause.TRANSFER] | copying
        by_cause[IdleCause.PYTHON] = by_cause[IdleCause.PYTHON] - copying
        for_threads, _ = self.wakes.in_silence(by_cause[IdleCause.UNKNOWN])
        by_cause[IdleCause.THREAD] = by_cause[IdleCause.THREAD] | for_threads
        by_cause[IdleCause.UNKNOWN] = by_cause[IdleCause.UNKNOWN] - for_threads
        # A sampled function is taken to go on while its thread does not run.
        silent = by_cause[IdleCause.UNKNOWN] | (by_cause[IdleCause.PYTHON] & self.stands)
        contended = (silent | by_cause[IdleCause.DISPATCH]) & locked(self.busy)
        for cause in (IdleCause.UNKNOWN, IdleCause.DISPATCH, IdleCause.PYTHON):
            by_cause[cause] = by_cause[cause] - contended
        by_cause[IdleCause.CONTENDED] = contended
        return by_cause

    def _until_ready(self, gaps: Intervals) -> Intervals:
        """Return the beginnings of gaps in which the host still waits for what ran before them.

        A virtual device has no op left, but its result is not ready: its threads free or allocate
        buffers. A host that does not wait would change nothing about it, beyond the short time
        until it has notice. An accelerator is done then, and it is the host that wakes late.
        """
        waits = self.calling.only_waits
        if not len(waits):
            return EMPTY
        last = np.searchsorted(waits.start, gaps.start, side="left") - 1
        until = np.where(last >= 0, waits.end[np.maximum(last, 0)], gaps.start)
        until = np.clip(until, gaps.start, gaps.end)
        long = until - gaps.start > _NOTICE_PS
        return union(gaps.start[long], until[long])

    def awaited(self, by_cause: Mapping[IdleCause, Intervals]) -> dict[tuple[IdleCause, str], int]:
        """Return what other threads did for which the launching thread waited, by its cause.

        `by_cause` are parts of gaps by cause, as `attribute` returns them.
        """
        done: dict[tuple[IdleCause, str], int] = {}
        for cause in (IdleCause.INPUT, IdleCause.THREAD):
            pieces = by_cause.get(cause, EMPTY)
            if not len(pieces):
                continue
            _, silent = self.wakes.in_silence(pieces - self.wakes.waits)
            for events in (self.wakes.of_waits(pieces), silent):
                for (inner, giver), ps in events.items():
                    text = IdleEvent(IdleCause.PYTHON, giver, inner).text(self.names)
                    done[cause, text] = done.get((cause, text), 0) + ps
        return done

    def tops(self, gaps: Intervals) -> dict[IdleEvent, int]:
        """Return picoseconds of gaps in each innermost event of the launching thread.

        If that thread is not known, of all threads, with the cause unknown.
        """
        ps_of: dict[IdleEvent, int] = {}
        if not len(gaps):
            return ps_of
        for thread_ in (self.calling,) if self.known else self.others:
            own = thread_.rows_in(gaps)
            if not len(own):
                continue
            inside = gaps.covered(thread_.start[own], thread_.end[own])
            names = int(max(thread_.giver[own].max(), thread_.name[own].max())) + 1
            pair = thread_.cause[own] * names + thread_.giver[own]
            kinds, kind = np.unique(pair * names + thread_.name[own], return_inverse=True)
            sums = np.bincount(kind, weights=inside)
            rows = np.stack([kinds // names // names, kinds // names % names, kinds % names])
            for (cause, giver, name), ps in zip(rows.T.tolist(), sums.tolist(), strict=True):
                behind = IdleEvent(CAUSES[cause] if self.known else IdleCause.UNKNOWN, giver, name)
                ps_of[behind] = ps_of.get(behind, 0) + int(ps)
        return ps_of


def host_activities(data: StepData) -> dict[int, HostActivity]:
    """Read the events of every host with devices around the typical steps."""
    events = data.timeline.host_events
    if not events["host"].is_sorted():
        events = events.sort("host", maintain_order=True)
    rows = device_slices(events, "host")
    return {
        host: host_activity(data, events[rows.get(host, slice(0, 0))])
        for host in sorted({device.host for device in data.timeline.devices})
    }


def host_activity(data: StepData, everything: pl.DataFrame) -> HostActivity:
    """Read one host's events around the typical steps; `everything`: all its events."""
    names, windows = data.timeline.host_names, data.selection.windows
    events = everything
    if len(windows) and len(events):
        start = events["start_ps"].to_numpy()
        steps = _steps(windows)
        following = np.searchsorted(steps.end, start, side="right")
        next_start = np.append(steps.start, np.iinfo(np.int64).max)[following]
        events = events.filter(pl.Series(start + events["dur_ps"].to_numpy() > next_start))
    is_work = pl.col("name").is_in(
        [code for code, name in enumerate(names) if name in (WORKS_IN_PYTHON, WORKS_IN_NATIVE_CODE)]
    )
    worked, events = events.filter(is_work), events.filter(~is_work)
    line = calling_line(events, names, _step_calls(data))
    told = named(names, data.cached(own_causes))
    by_line = {part["line"][0]: part for part in events.partition_by("line", maintain_order=True)}
    own = by_line.pop(line, events.clear())
    # Calls are matched with runs in order, so calls outside the windows count too.
    calls = everything.filter(pl.col("name").is_in(matching(names, CALL)))
    calling, *threads = on_threads(
        lambda part: thread(part, told), (own, *by_line.values()), rows=len(events)
    )
    times, work = _steps(windows), _work_of_lines(worked, names)
    busy = (
        busy_thread(part, told, times)
        if traces_python(data.timeline)
        else sampled_busy_thread(part, work.get(number, (EMPTY, EMPTY)), told, times)
        for number, part in zip(by_line, threads, strict=True)
    )
    in_python, native = work.get(-1 if line is None else line, (EMPTY, EMPTY))
    return HostActivity(
        names=names,
        named=told,
        known=line is not None,
        calls=calls,
        enqueues=enqueuing(events, names),
        calling=calling,
        others=tuple(threads),
        beside={cause: _together(threads, cause) for cause in _OTHERS_DO},
        busy=tuple(each for each in busy if each is not None),
        stands=times - in_python - native if work else EMPTY,
    )


def _work_of_lines(
    worked: pl.DataFrame, names: Sequence[str]
) -> dict[int, tuple[Intervals, Intervals]]:
    """Return when each sampled thread worked: in Python, and in native code."""
    work_of: dict[int, tuple[Intervals, Intervals]] = {}
    for part in worked.partition_by("line"):
        start = part["start_ps"].to_numpy()
        end = start + part["dur_ps"].to_numpy()
        python = np.array([names[code] == WORKS_IN_PYTHON for code in part["name"]], bool)
        work_of[int(part["line"][0])] = (
            union(start[python], end[python]),
            union(start[~python], end[~python]),
        )
    return work_of


def _steps(windows: pl.DataFrame) -> Intervals:
    return union(windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy())


def _together(threads: Iterable[Thread], cause: IdleCause) -> Intervals:
    times = EMPTY
    for thread_ in threads:
        times = times | thread_.during(cause)
    return times


def _step_calls(data: StepData) -> Sequence[int]:
    """Return the names of calls of the step's program."""
    program = data.timeline.step_program
    if program is None:
        return ()
    function = functions_of(data.timeline)[program]
    return calling_names(data.timeline).get(function, ()) if function else ()


def calling_line(
    events: pl.DataFrame, names: tuple[str, ...], step_calls: Sequence[int] = ()
) -> int | None:
    """Return the line of the launching thread; None if nothing shows it.

    It is the one that calls the step's program: an actor or an evaluation beside it may call others
    more often.
    """
    for sought in (step_calls, *(matching(names, sign) for sign in _CALLS)):
        seen = events.filter(pl.col("name").is_in(sought))
        if len(seen):
            by_line = seen.group_by("line").agg(pl.len(), pl.col("dur_ps").sum())
            return int(by_line.sort("dur_ps", "len", "line")["line"][-1])
    return None


def enqueuing(events: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """Return the events that put kernels on streams."""
    sought = matching(names, _ENQUEUES)
    return events.filter(pl.col("name").is_in(sought) & (pl.col("dur_ps") > 0))
