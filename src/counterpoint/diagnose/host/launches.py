"""Launches: which thread calls the programs, and whether a run had been launched in time.

The thread that calls is the one with most time in `PjitFunction(f)`; where the profiler knows no
such calls (Nsight Systems), the one that launches most kernels. The k-th call of `f` belongs to the
k-th run of `jit_f`, less the calls that came before the profile: as few as keep every call before
its run. That is the latest a call can have been, so a run that counts as launched in time was.
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
"""The surest sign first."""

_ENQUEUES: Final = re.compile(r"ExecuteThunks|EnqueueExecution|XlaModule:|XLA GPU module")
"""What puts a program's kernels on the device's streams, one after the other."""

_JIT: Final = re.compile(r"^p?jit_(.*)$")
_NEVER: Final = int(np.iinfo(np.int64).max)


def calling_line(events: pl.DataFrame, names: tuple[str, ...]) -> int | None:
    """The line of the thread that launches; None where nothing shows it."""
    for sign in _CALLS:
        matching = [index for index, name in enumerate(names) if sign.search(name)]
        seen = events.filter(pl.col("name").is_in(matching))
        if len(seen):
            by_line = seen.group_by("line").agg(pl.len(), pl.col("dur_ps").sum())
            return int(by_line.sort("dur_ps", "len", "line")["line"][-1])
    return None


def enqueuing(events: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """Events that put kernels on streams."""
    matching = [index for index, name in enumerate(names) if _ENQUEUES.search(name)]
    return events.filter(pl.col("name").is_in(matching) & (pl.col("dur_ps") > 0))


def launched_at(timeline: Timeline, calls: pl.DataFrame, runs: pl.DataFrame) -> Longs:
    """When the call that launched each run had returned; never, where no call is known for it.

    `runs` are those of one device in order of start; `calls` the events of the calling thread.
    Both have to be of the whole profile: a run behind the last call would look as if one was lost.
    """
    found = np.full(len(runs), _NEVER, np.int64)
    functions = np.array(
        [_function(timeline.programs[int(p)].name) for p in runs["program"].to_list()]
    )
    start = runs["start_ps"].to_numpy()
    for function in np.unique(functions):
        mine = np.flatnonzero(functions == function)
        named = [i for i, n in enumerate(timeline.host_names) if _called(n) == function]
        begin, end = _outermost(calls.filter(pl.col("name").is_in(named)))
        if function and len(begin):
            found[mine] = _matched(begin, end, start[mine])
    return found


def _matched(begin: Longs, end: Longs, runs: Longs) -> Longs:
    """The ends of the calls of these runs, none of which began after its run."""
    before = np.searchsorted(begin, runs, side="right")
    missing = max(0, int((np.arange(1, len(runs) + 1) - before).max()))
    call = np.arange(len(runs)) - missing
    known = (call >= 0) & (call < len(end))
    return np.where(known, end[np.clip(call, 0, len(end) - 1)], _NEVER)


def _outermost(calls: pl.DataFrame) -> tuple[Longs, Longs]:
    """Calls without those inside of them: `jit` of `jit`, and a wrapper's own event."""
    ordered = calls.sort("start_ps", "dur_ps", descending=[False, True])
    begin = ordered["start_ps"].to_numpy()
    end = begin + ordered["dur_ps"].to_numpy()
    reach = np.maximum.accumulate(end) if len(end) else end
    outer = np.ones(len(begin), bool)
    outer[1:] = end[1:] > reach[:-1]
    return begin[outer], end[outer]


def while_launching(runs: pl.DataFrame, enqueues: pl.DataFrame) -> Intervals:
    """The parts of runs in which their own kernels were still being launched.

    The event that enqueues a run is in progress when its first kernel starts; one that began later
    is that of a later run.
    """
    begin = enqueues["start_ps"].to_numpy()
    order = np.argsort(begin, kind="stable")
    begin = begin[order]
    end = (enqueues["start_ps"] + enqueues["dur_ps"]).to_numpy()[order]
    start, stop = runs["start_ps"].to_numpy(), runs["end_ps"].to_numpy()
    if not len(begin):
        return union(start, start)
    reach = np.maximum.accumulate(end)
    last = np.searchsorted(begin, start, side="right") - 1
    until = np.where(last >= 0, reach[np.maximum(last, 0)], start)
    return union(start, np.minimum(until, stop))


def _function(program: str) -> str:
    found = _JIT.match(program)
    return found[1] if found else ""


def _called(name: str) -> str | None:
    found = _CALL.match(name)
    return found[1] if found else None
