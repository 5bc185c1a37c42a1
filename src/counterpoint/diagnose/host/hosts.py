"""One host's side of the steps: its threads and the causes of device idle time."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import field
from enum import Enum, StrEnum
from functools import cache, cached_property
from importlib.resources import files
from pathlib import PurePath
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import EMPTY, Intervals, order_by, union, values_of
from counterpoint.core.frozen import frozen
from counterpoint.core.threads import on_threads
from counterpoint.diagnose.selection import device_slices
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline import Timeline
from counterpoint.timeline.step_range import CALL


class IdleCause(StrEnum):
    """The cause of idle time of a device."""

    PROFILER = "profiler"
    COMPILE = "compile"
    BLOCKED = "blocked"  # the host waits for a result and launches nothing
    RUNTIME = "runtime"  # the runtime blocks the host
    INPUT = "input"
    TRANSFER = "transfer"  # to a device
    DISPATCH = "dispatch"
    LAUNCHING = "launching"  # of the kernels of a run that has begun
    PYTHON = "python"  # a recorded event that is none of the above
    OTHERS = "others"  # the host waits while other devices are busy
    DEVICE = "device"  # already launched: from one kernel to the next
    UNKNOWN = "unknown"  # nothing recorded on the launching thread


@cache
def _patterns() -> tuple[tuple[IdleCause, str], ...]:
    text = files("counterpoint.diagnose.host").joinpath("causes.toml").read_text(encoding="utf-8")
    return tuple(
        (
            IdleCause(entry["name"]),
            "|".join(f"(?:{alternative})" for alternative in _plain(entry)),
        )
        for entry in tomllib.loads(text)["cause"]
    )


def _plain(entry: dict[str, list[str]]) -> list[str]:
    """Limit a flag in the middle of a pattern to its own alternative."""
    return [
        f"(?i:{pattern.removeprefix('(?i)')})" if pattern.startswith("(?i)") else pattern
        for pattern in entry["patterns"]
    ]


_FEW: Final = 300
"""Names up to which Python tries the patterns sooner than polars has compiled them."""


def causes_of(names: Sequence[str]) -> list[IdleCause | None]:
    """Return the cause that events of each name indicate.

    Some profiles have thousands of names; polars tries the patterns on all of them at once.
    """
    if len(names) <= _FEW:
        patterns = [(cause, re.compile(pattern)) for cause, pattern in _patterns()]
        bare_names = (name.removeprefix(_NVTX_DOMAIN) for name in names)
        return [
            next((cause for cause, pattern in patterns if pattern.search(name)), None)
            for name in bare_names
        ]
    bare = pl.DataFrame({"name": names}, schema={"name": pl.String}).select(
        pl.col("name").str.strip_prefix(_NVTX_DOMAIN)
    )
    first = pl.coalesce(
        pl.when(pl.col("name").str.contains(pattern)).then(pl.lit(str(cause)))
        for cause, pattern in _patterns()
    )
    found: list[str | None] = bare.select(first).to_series().to_list()
    return [None if cause is None else IdleCause(cause) for cause in found]


_NVTX_DOMAIN: Final = "TSL:"
Longs = NDArray[np.int64]
CAUSES: Final = tuple(IdleCause)
_NONE: Final = -1
_SWALLOWED: Final = (CAUSES.index(IdleCause.INPUT), CAUSES.index(IdleCause.PYTHON))
_SWALLOWS: Final = (CAUSES.index(IdleCause.DISPATCH), CAUSES.index(IdleCause.COMPILE))
"""Tracing and dispatch call `next` thousands of times; within them it is not input."""

_PYTHON: Final = CAUSES.index(IdleCause.PYTHON)
_UNKNOWN: Final = CAUSES.index(IdleCause.UNKNOWN)
TRACED: Final = "$"
"""Prefix of the Python tracer's events."""


@frozen(eq=False)
class Thread:
    """Disjoint intervals of one thread, in order; nothing is recorded between them."""

    start: Longs
    end: Longs
    name: Longs  # of the innermost event, an index into Timeline.host_names
    cause: Longs  # an index into CAUSES
    giver: Longs  # of the event that determined the cause, an index into Timeline.host_names

    def during(self, *causes: IdleCause) -> Intervals:
        """Return when the thread does any of these."""
        chosen = np.isin(self.cause, [CAUSES.index(cause) for cause in causes])
        return union(self.start[chosen], self.end[chosen])

    def rows_in(self, times: Intervals) -> Longs:
        """Return the intervals of the thread that share time with these."""
        first = np.searchsorted(self.end, times.start, side="right")
        behind = np.searchsorted(self.start, times.end, side="left")
        many = len(self.start) + 1
        change = np.bincount(first, minlength=many) - np.bincount(behind, minlength=many)
        return np.flatnonzero(np.cumsum(change) > 0)


def thread(
    events: pl.DataFrame, names: Sequence[str], own_cause: Sequence[IdleCause | None]
) -> Thread:
    """Build the Thread of one line's events; `own_cause` has an entry per name.

    Events of a thread nest. An event whose name implies no cause has that of the event around it: a
    helper of `jit` dispatches, a lock inside a data loader is input. Python in none of these is
    Python. An annotation around calls (a step's marker, an epoch) tells where the thread is, not
    what it does: without the Python tracer the time between the calls inside it is unknown.
    """
    start, end, name = _outer_first(events)
    table = np.array(
        [
            _NONE if cause_or_none is None else CAUSES.index(cause_or_none)
            for cause_or_none in own_cause
        ],
        np.int64,
    )
    traced = np.array([text.startswith(TRACED) for text in names], bool)
    parent, depth = _parents(start, end)
    own = table[name]
    own[np.isin(name, _around_calls(name, own, parent, depth)) & ~traced[name]] = _UNKNOWN
    cause, giver = _inherit(own, parent, depth)
    times, state = _moments(start, end, parent, depth)
    kept = (state[:-1] != _NONE) & (times[1:] > times[:-1])
    inner = state[:-1][kept]
    return Thread(times[:-1][kept], times[1:][kept], name[inner], cause[inner], name[giver[inner]])


def _outer_first(events: pl.DataFrame) -> tuple[Longs, Longs, Longs]:
    """Return start, end and name of events with a length, in order of start, the longer first."""
    start, duration = events["start_ps"].to_numpy(), events["dur_ps"].to_numpy()
    order = order_by(start, -duration)
    order = order[duration[order] > 0]
    start = start[order]
    return start, start + duration[order], events["name"].to_numpy()[order].astype(np.int64)


def _around_calls(name: Longs, own: Longs, parent: Longs, depth: Longs) -> Longs:
    """Return names of events without a cause of their own that contain calls of programs."""
    calls = own == CAUSES.index(IdleCause.DISPATCH)
    for level in range(int(depth.max(initial=0)), 0, -1):
        nested = np.flatnonzero((depth == level) & calls & (parent != _NONE))
        calls[parent[nested]] = True
    return values_of(name[calls & (own == _NONE)])


def _parents(start: Longs, end: Longs) -> tuple[Longs, Longs]:
    """Return the event around each, and its nesting depth."""
    depth = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    parent = np.full(len(start), _NONE, np.int64)
    for level in range(1, int(depth.max(initial=0)) + 1):
        inner, outer = np.flatnonzero(depth == level), np.flatnonzero(depth == level - 1)
        if len(inner) and len(outer):
            position = np.searchsorted(outer, inner) - 1
            parent[inner] = np.where(position >= 0, outer[position], _NONE)
    return parent, depth


def _inherit(own: Longs, parent: Longs, depth: Longs) -> tuple[Longs, Longs]:
    """Pass causes inwards: an event without a cause of its own takes that of the event around it.

    The second result is the event that determined the cause.
    """
    found, giver = own.copy(), np.arange(len(own))
    found[(depth == 0) & (found == _NONE)] = _PYTHON
    for level in range(1, int(depth.max(initial=0)) + 1):
        level_events = np.flatnonzero(depth == level)
        outer = np.maximum(parent[level_events], 0)
        around = np.where(parent[level_events] == _NONE, _PYTHON, found[outer])
        own_causes = found[level_events]
        # Within an annotation, a named event without calls is Python that the user annotated.
        own_causes = np.where((own_causes == _NONE) & (around == _UNKNOWN), _PYTHON, own_causes)
        gives_way = np.isin(own_causes, _SWALLOWED) & np.isin(around, _SWALLOWS)
        gives_way |= (own_causes == _NONE) | ((own_causes == _UNKNOWN) & (around == _PYTHON))
        found[level_events] = np.where(gives_way, around, own_causes)
        giver[level_events] = np.where(
            gives_way & (parent[level_events] != _NONE), giver[outer], level_events
        )
    return found, giver


def _moments(start: Longs, end: Longs, parent: Longs, depth: Longs) -> tuple[Longs, Longs]:
    """Return the times at which the innermost event changes, and the event from then on."""
    count = len(start)
    times = np.concatenate([end, start])
    opens = np.repeat([0, 1], count)
    # Of ends at the same time the outermost comes last, of starts the innermost.
    nesting = np.concatenate([-depth, depth])
    order = order_by(times, opens, nesting)
    state = np.concatenate([parent, np.arange(count)])
    return times[order], state[order]


_WAITS: Final = (IdleCause.BLOCKED, IdleCause.RUNTIME)
_OTHERS_DO: Final = (IdleCause.COMPILE, IdleCause.DISPATCH, IdleCause.TRANSFER)
"""Causes by which another thread may explain a wait of the launching thread, rarest first."""

_NAMED_BY_OUTER: Final = (IdleCause.INPUT, IdleCause.BLOCKED)
"""Causes for which the innermost event is what users look for: the loader, not its lock."""

_PLAIN: Final = tuple(
    cause
    for cause in CAUSES
    if cause
    not in (*_WAITS, IdleCause.LAUNCHING, IdleCause.OTHERS, IdleCause.DEVICE, IdleCause.UNKNOWN)
)


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


@frozen(eq=False, slots=False)
class HostActivity:
    """The events of one host around the typical steps."""

    known: bool  # the launching thread is known
    calls: pl.DataFrame  # the launching thread's events, of the whole profile
    enqueues: pl.DataFrame  # events of all threads that put kernels on streams
    calling: Thread
    others: tuple[Thread, ...]
    beside: dict[IdleCause, Intervals]  # when the other threads do what
    spent: dict[tuple[IdleCause, ...], Intervals] = field(
        default_factory=dict[tuple[IdleCause, ...], Intervals], init=False, repr=False
    )

    def during(self, *causes: IdleCause) -> Intervals:
        """Return when the launching thread does any of these."""
        if causes not in self.spent:
            self.spent[causes] = self.calling.during(*causes)
        return self.spent[causes]

    @cached_property
    def blocked(self) -> Intervals:
        """The intervals in which the launching thread waits for a device's results."""
        return self.during(IdleCause.BLOCKED)

    def attribute(self, gaps: Intervals, anywhere: Intervals) -> dict[IdleCause, Intervals]:
        """Split gaps by cause; `anywhere`: when any device is busy."""
        if not len(gaps):
            return {}
        found = {cause: gaps & self.during(cause) for cause in _PLAIN}
        recorded = gaps & self.during(
            *(cause for cause in CAUSES if cause is not IdleCause.UNKNOWN)
        )
        waiting = gaps & self.during(*_WAITS)
        left = waiting | (gaps - recorded)
        found[IdleCause.OTHERS] = waiting & anywhere
        left = left - found[IdleCause.OTHERS]
        for cause in _OTHERS_DO:
            doing = left & self.beside.get(cause, EMPTY)
            found[cause] = found[cause] | doing
            left = left - doing
        for cause in _WAITS:
            found[cause] = left & self.during(cause)
        found[IdleCause.UNKNOWN] = left - waiting
        return found

    def tops(self, gaps: Intervals) -> dict[IdleEvent, int]:
        """Return picoseconds of gaps in each innermost event of the launching thread.

        If that thread is not known, of all threads, with the cause unknown.
        """
        found: dict[IdleEvent, int] = {}
        if not len(gaps):
            return found
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
                found[behind] = found.get(behind, 0) + int(ps)
        return found


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
        steps = union(windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy())
        following = np.searchsorted(steps.end, start, side="right")
        next_start = np.append(steps.start, np.iinfo(np.int64).max)[following]
        events = events.filter(pl.Series(start + events["dur_ps"].to_numpy() > next_start))
    line = calling_line(events, names)
    own_cause = data.cached(own_causes)
    by_line = {part["line"][0]: part for part in events.partition_by("line", maintain_order=True)}
    own = by_line.pop(line, events.clear())
    # Calls are matched with runs by counting, so calls outside the windows count too.
    calls = everything.filter(pl.col("line") == line) if line is not None else own
    calling, *threads = on_threads(
        lambda part: thread(part, names, own_cause), (own, *by_line.values()), rows=len(events)
    )
    return HostActivity(
        known=line is not None,
        calls=calls,
        enqueues=enqueuing(events, names),
        calling=calling,
        others=tuple(threads),
        beside={cause: _together(threads, cause) for cause in _OTHERS_DO},
    )


def own_causes(data: StepData) -> list[IdleCause | None]:
    """Return the cause per name, which all hosts share."""
    return causes_of(data.timeline.host_names)


def _together(threads: Iterable[Thread], cause: IdleCause) -> Intervals:
    times = EMPTY
    for thread_ in threads:
        times = times | thread_.during(cause)
    return times


_OF_NSYS: Final = "NvDriverVersion"
"""An entry that only Nsight Systems writes."""

_SUFFIXES: Final = (".sqlite", ".nsys-rep")


_ANNOTATE: Final = (
    "put jax.profiler.TraceAnnotation around the parts of the loop (NVTX ranges in Nsight Systems;"
    " --trace=nvtx,osrt also records waits in the operating system)"
)


class ProfilerKind(Enum):
    """A profiler, with advice on recording more of the host and on recording less."""

    JAX = (
        "also record the host's Python (python_tracer_level=1)",
        "profile without the Python tracer (python_tracer_level=0)",
    )
    NSYS = (_ANNOTATE, "profile with less (nsys profile --sample=none --trace=cuda,nvtx)")

    @property
    def see_the_host(self) -> str:
        """Advice for recording more of the host."""
        return self.value[0]

    @property
    def cost_less(self) -> str:
        """Advice for reducing the profiler's overhead."""
        return self.value[1]


def profiler_of(timeline: Timeline) -> ProfilerKind:
    """Return Nsight Systems if it made the profile, or else the profiler of JAX."""
    suffixes = {PurePath(name).suffix for name in timeline.inputs}
    if _OF_NSYS in timeline.environment or suffixes & {*_SUFFIXES}:
        return ProfilerKind.NSYS
    return ProfilerKind.JAX


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


def calling_line(events: pl.DataFrame, names: tuple[str, ...]) -> int | None:
    """Return the line of the launching thread; None if nothing shows it."""
    for sign in _CALLS:
        seen = events.filter(pl.col("name").is_in(matching(names, sign)))
        if len(seen):
            by_line = seen.group_by("line").agg(pl.len(), pl.col("dur_ps").sum())
            return int(by_line.sort("dur_ps", "len", "line")["line"][-1])
    return None


def enqueuing(events: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """Return the events that put kernels on streams."""
    sought = matching(names, _ENQUEUES)
    return events.filter(pl.col("name").is_in(sought) & (pl.col("dur_ps") > 0))


def matching(names: Sequence[str], pattern: re.Pattern[str]) -> list[int]:
    """Return the indices of the names in which the pattern is found."""
    if len(names) <= _FEW:
        return [index for index, name in enumerate(names) if pattern.search(name)]
    found = pl.Series(names, dtype=pl.String).str.contains(pattern.pattern)
    return found.arg_true().to_list()
