"""Launches: the thread that calls the programs, and whether a run was launched in time.

The calling thread is the one with most time in `PjitFunction(f)`; if the profiler records no such
calls (Nsight Systems), the one that launches most kernels. The k-th call of `f` belongs to the k-th
run of `jit_f`, minus the calls from before the profile: as few as keep every call before its run.
That is the latest a call can have been, so a run that counts as launched in time was.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import Intervals, union
from counterpoint.timeline import Timeline

Longs = NDArray[np.int64]

_CALL: Final = re.compile(r"^(?:TSL:)?PjitFunction\((.*)\)$")
_CALLS: Final = (
    _CALL,
    re.compile(r"PJRT_LoadedExecutable_Execute|LoadedExecutable::Execute$|ExecuteReplicated"),
    re.compile(
        r"XlaModule:|GpuExecutable::ExecuteThunks|^(?:cu|cuda|hip)(?:Ext)?(?:Module)?Launch"
    ),
)
"""The most reliable sign first."""

_ENQUEUES: Final = re.compile(r"ExecuteThunks|EnqueueExecution|XlaModule:|XLA GPU module")
"""Events that enqueue a program's kernels on the device's streams, in order."""

_JIT: Final = re.compile(r"^p?jit_(.*)$")
_NEVER: Final = int(np.iinfo(np.int64).max)


def calling_line(events: pl.DataFrame, names: tuple[str, ...]) -> int | None:
    """Return the line of the launching thread; None if nothing shows it."""
    for sign in _CALLS:
        matching = [index for index, name in enumerate(names) if sign.search(name)]
        seen = events.filter(pl.col("name").is_in(matching))
        if len(seen):
            by_line = seen.group_by("line").agg(pl.len(), pl.col("dur_ps").sum())
            return int(by_line.sort("dur_ps", "len", "line")["line"][-1])
    return None


def enqueuing(events: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """Return the events that put kernels on streams."""
    matching = [index for index, name in enumerate(names) if _ENQUEUES.search(name)]
    return events.filter(pl.col("name").is_in(matching) & (pl.col("dur_ps") > 0))


def launched_at(timeline: Timeline, calls: pl.DataFrame, runs: pl.DataFrame) -> Longs:
    """Return when the call that launched each run had returned; never if no call is known.

    `runs` are those of one device in order of start; `calls` the events of the calling thread. Both
    must cover the whole profile: a run after the last call would look as if a call was lost.
    """
    found = np.full(len(runs), _NEVER, np.int64)
    functions = np.array(
        [_function(timeline.programs[int(program)].name) for program in runs["program"].to_list()]
    )
    start = runs["start_ps"].to_numpy()
    for function in np.unique(functions):
        of_function = np.flatnonzero(functions == function)
        named = [
            index for index, name in enumerate(timeline.host_names) if _called(name) == function
        ]
        begin, end = _outermost(calls.filter(pl.col("name").is_in(named)))
        if function and len(begin):
            found[of_function] = _matched(begin, end, start[of_function])
    return found


def _matched(begin: Longs, end: Longs, runs: Longs) -> Longs:
    """Return the ends of the calls of these runs; no call begins after its run."""
    before = np.searchsorted(begin, runs, side="right")
    missing = max(0, int((np.arange(1, len(runs) + 1) - before).max()))
    call = np.arange(len(runs)) - missing
    known = (call >= 0) & (call < len(end))
    return np.where(known, end[np.clip(call, 0, len(end) - 1)], _NEVER)


def _outermost(calls: pl.DataFrame) -> tuple[Longs, Longs]:
    """Return calls without nested ones: `jit` within `jit`, and a wrapper's own event."""
    ordered = calls.sort("start_ps", "dur_ps", descending=[False, True])
    begin = ordered["start_ps"].to_numpy()
    end = begin + ordered["dur_ps"].to_numpy()
    latest_end = np.maximum.accumulate(end) if len(end) else end
    outer = np.ones(len(begin), bool)
    outer[1:] = end[1:] > latest_end[:-1]
    return begin[outer], end[outer]


def while_launching(runs: pl.DataFrame, enqueues: pl.DataFrame) -> Intervals:
    """Return the parts of runs in which their own kernels were still being launched.

    The event that enqueues a run is in progress when its first kernel starts; an event that began
    later belongs to a later run.
    """
    begin = enqueues["start_ps"].to_numpy()
    order = np.argsort(begin, kind="stable")
    begin = begin[order]
    end = (enqueues["start_ps"] + enqueues["dur_ps"]).to_numpy()[order]
    start, stop = runs["start_ps"].to_numpy(), runs["end_ps"].to_numpy()
    if not len(begin):
        return union(start, start)
    latest_end = np.maximum.accumulate(end)
    last = np.searchsorted(begin, start, side="right") - 1
    until = np.where(last >= 0, latest_end[np.maximum(last, 0)], start)
    return union(start, np.minimum(until, stop))


def _function(program: str) -> str:
    found = _JIT.match(program)
    return found[1] if found else ""


def _called(name: str) -> str | None:
    found = _CALL.match(name)
    return found[1] if found else None
