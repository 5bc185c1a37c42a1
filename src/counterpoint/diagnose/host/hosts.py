"""One host's side of the steps: its threads and the causes of device idle time."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cache, cached_property
from importlib.resources import files
from pathlib import PurePath
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import EMPTY, Intervals, union
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.host.launches import calling_line, enqueuing
from counterpoint.timeline import Timeline


class Cause(StrEnum):
    """Why a device has nothing to do."""

    PROFILER = "profiler"
    COMPILE = "compile"
    BLOCKED = "blocked"  # the host waits for a result, and launches nothing meanwhile
    RUNTIME = "runtime"  # the runtime holds the host back
    INPUT = "input"
    TRANSFER = "transfer"  # to a device
    DISPATCH = "dispatch"
    LAUNCHING = "launching"  # of the kernels of a run that has begun
    PYTHON = "python"  # an event, and none of the above
    OTHERS = "others"  # the host waits, and other devices are busy
    DEVICE = "device"  # the host had launched: from one kernel to the next
    UNKNOWN = "unknown"  # nothing recorded on the thread that launches


NAMED: Final = tuple(
    cause
    for cause in Cause
    if cause not in (Cause.LAUNCHING, Cause.PYTHON, Cause.OTHERS, Cause.DEVICE, Cause.UNKNOWN)
)
"""Those that causes.toml has names for."""


@cache
def _patterns() -> tuple[tuple[Cause, re.Pattern[str]], ...]:
    text = files("counterpoint.diagnose.host").joinpath("causes.toml").read_text(encoding="utf-8")
    return tuple(
        (Cause(entry["name"]), re.compile("|".join(f"(?:{it})" for it in _plain(entry))))
        for entry in tomllib.loads(text)["cause"]
    )


def _plain(entry: dict[str, list[str]]) -> list[str]:
    """A flag in the middle of a pattern is for that alternative only."""
    return [
        f"(?i:{it.removeprefix('(?i)')})" if it.startswith("(?i)") else it
        for it in entry["patterns"]
    ]


def cause_of(name: str) -> Cause | None:
    """What an event of this name says of itself."""
    bare = name.removeprefix("TSL:")
    return next((cause for cause, pattern in _patterns() if pattern.search(bare)), None)


def causes_of(names: Sequence[str]) -> list[Cause | None]:
    """The same for many; a profile has thousands of names and millions of events."""
    return [cause_of(name) for name in names]


Longs = NDArray[np.int64]
CAUSES: Final = tuple(Cause)
_NONE: Final = -1
_SWALLOWED: Final = (CAUSES.index(Cause.INPUT), CAUSES.index(Cause.PYTHON))
_SWALLOWS: Final = (CAUSES.index(Cause.DISPATCH), CAUSES.index(Cause.COMPILE))
"""Tracing and dispatch call `next` by the thousand: inside of them that is no input."""

_PYTHON: Final = CAUSES.index(Cause.PYTHON)
_UNKNOWN: Final = CAUSES.index(Cause.UNKNOWN)
TRACED: Final = "$"
"""The Python tracer's events begin with it."""


@dataclass(frozen=True, slots=True, eq=False)
class Thread:
    """Moments of one thread, disjoint and in order; what lies between them, nobody recorded."""

    start: Longs
    end: Longs
    name: Longs  # of the innermost event, an index into Timeline.host_names
    cause: Longs  # an index into CAUSES
    giver: Longs  # of the event that gave the cause, an index into Timeline.host_names

    def during(self, *causes: Cause) -> Intervals:
        """When the thread does one of these."""
        chosen = np.isin(self.cause, [CAUSES.index(cause) for cause in causes])
        return union(self.start[chosen], self.end[chosen])


def thread(events: pl.DataFrame, names: Sequence[str], own_cause: Sequence[Cause | None]) -> Thread:
    """Of one line's events; `own_cause` has an entry per name."""
    sorted_ = events.filter(pl.col("dur_ps") > 0).sort(
        "start_ps", "dur_ps", descending=[False, True], maintain_order=True
    )
    start = sorted_["start_ps"].to_numpy()
    end = start + sorted_["dur_ps"].to_numpy()
    name = sorted_["name"].to_numpy().astype(np.int64)
    table = np.array([_NONE if one is None else CAUSES.index(one) for one in own_cause], np.int64)
    traced = np.array([one.startswith(TRACED) for one in names], bool)
    parent, depth = _parents(start, end)
    own = table[name]
    own[np.isin(name, _around_calls(name, own, parent, depth)) & ~traced[name]] = _UNKNOWN
    cause, giver = _inherit(own, parent, depth)
    at, state = _moments(start, end, parent, depth)
    kept = (state[:-1] != _NONE) & (at[1:] > at[:-1])
    inner = state[:-1][kept]
    return Thread(at[:-1][kept], at[1:][kept], name[inner], cause[inner], name[giver[inner]])


def _around_calls(name: Longs, own: Longs, parent: Longs, depth: Longs) -> Longs:
    """Names of events that say nothing of themselves, and have calls of programs inside."""
    calls = own == CAUSES.index(Cause.DISPATCH)
    for level in range(int(depth.max(initial=0)), 0, -1):
        mine = np.flatnonzero((depth == level) & calls & (parent != _NONE))
        calls[parent[mine]] = True
    return np.unique(name[calls & (own == _NONE)])


def _parents(start: Longs, end: Longs) -> tuple[Longs, Longs]:
    """The event around each, and how many are around it."""
    depth = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    parent = np.full(len(start), _NONE, np.int64)
    for level in range(1, int(depth.max(initial=0)) + 1):
        mine, outer = np.flatnonzero(depth == level), np.flatnonzero(depth == level - 1)
        if len(mine) and len(outer):
            at = np.searchsorted(outer, mine) - 1
            parent[mine] = np.where(at >= 0, outer[at], _NONE)
    return parent, depth


def _inherit(own: Longs, parent: Longs, depth: Longs) -> tuple[Longs, Longs]:
    """From the outermost inwards: an event without a cause of its own has that around it.

    The second is the event that gave the cause.
    """
    found, giver = own.copy(), np.arange(len(own))
    found[(depth == 0) & (found == _NONE)] = _PYTHON
    for level in range(1, int(depth.max(initial=0)) + 1):
        mine = np.flatnonzero(depth == level)
        outer = np.maximum(parent[mine], 0)
        around = np.where(parent[mine] == _NONE, _PYTHON, found[outer])
        one = found[mine]
        # Inside of an annotation, what has a name and no calls is Python that somebody named.
        one = np.where((one == _NONE) & (around == _UNKNOWN), _PYTHON, one)
        gives_way = np.isin(one, _SWALLOWED) & np.isin(around, _SWALLOWS)
        gives_way |= (one == _NONE) | ((one == _UNKNOWN) & (around == _PYTHON))
        found[mine] = np.where(gives_way, around, one)
        giver[mine] = np.where(gives_way & (parent[mine] != _NONE), giver[outer], mine)
    return found, giver


def _moments(start: Longs, end: Longs, parent: Longs, depth: Longs) -> tuple[Longs, Longs]:
    """Times at which the innermost event changes, and which it is from then on."""
    count = len(start)
    at = np.concatenate([end, start])
    opens = np.repeat([0, 1], count)
    # Of ends at one moment the outermost comes last, of starts the innermost.
    nesting = np.concatenate([-depth, depth])
    order = np.lexsort((nesting, opens, at))
    state = np.concatenate([parent, np.arange(count)])
    return at[order], state[order]


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


_OF_NSYS: Final = "NvDriverVersion"
"""What Nsight Systems writes of its target, and no other profiler."""

_SUFFIXES: Final = (".sqlite", ".nsys-rep")


_ANNOTATE: Final = (
    "put jax.profiler.TraceAnnotation around the parts of the loop (Nsight Systems shows them as"
    " NVTX ranges, with --trace=nvtx,osrt also waits of the operating system)"
)


class Recorder(Enum):
    """Each with how to record what the host does between calls, and how to record less."""

    JAX = (
        "record the host's Python too (python_tracer_level=1)",
        "profile without the Python tracer (python_tracer_level=0)",
    )
    NSYS = (_ANNOTATE, "profile with less (nsys profile --sample=none --trace=cuda,nvtx)")

    @property
    def see_the_host(self) -> str:
        """To see more of it."""
        return self.value[0]

    @property
    def cost_less(self) -> str:
        """To disturb it less."""
        return self.value[1]


def recorder_of(timeline: Timeline) -> Recorder:
    """Nsight Systems, or else the profiler of JAX."""
    suffixes = {PurePath(name).suffix for name in timeline.inputs}
    if _OF_NSYS in timeline.environment or suffixes & {*_SUFFIXES}:
        return Recorder.NSYS
    return Recorder.JAX
