"""When the host launched each run of a program: the calls of jitted functions, matched with runs.

The k-th call of `f` belongs to the k-th run of `jit_f`, minus the calls from before the profile: as
few as keep every call before its run. That is the latest a call can have been, so a run that counts
as launched in time was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import Intervals, union, values_of
from counterpoint.diagnose.host.causes import matching
from counterpoint.timeline import Timeline
from counterpoint.timeline.step_range import CALL

Longs = NDArray[np.int64]

_JIT: Final = re.compile(r"^p?jit_(.*)$")


NEVER: Final = int(np.iinfo(np.int64).max)


def calling_names(timeline: Timeline) -> Mapping[str, Sequence[int]]:
    """Return the names of the events that call each jitted function."""
    names: dict[str, list[int]] = {}
    for index in matching(timeline.host_names, CALL):
        if found := CALL.match(timeline.host_names[index]):
            names.setdefault(found[1], []).append(index)
    return names


class CallReturns:
    """The calls of jitted functions by a host's launching thread, of the whole profile."""

    def __init__(self, calls: pl.DataFrame, calls_of: Mapping[str, Sequence[int]]) -> None:
        self._calls = calls
        self._calls_of = calls_of
        self._found: dict[str, tuple[Longs, Longs]] = {}
        self._lock = Lock()  # the devices of a host, on threads, ask for the same functions

    def of(self, function: str) -> tuple[Longs, Longs]:
        """Return begin and end of the calls of a function."""
        with self._lock:
            if function not in self._found:
                named = self._calls_of.get(function, ())
                self._found[function] = _outermost(self._calls.filter(pl.col("name").is_in(named)))
            return self._found[function]


def launched_at(timeline: Timeline, runs: pl.DataFrame, returns: CallReturns) -> Longs:
    """Return when the call that launched each run had returned; never if no call is known.

    `runs` are those of one device in order of start. Both must cover the whole profile: a run after
    the last call would look as if a call was lost.
    """
    found = np.full(len(runs), NEVER, np.int64)
    program, start = runs["program"].to_numpy(), runs["start_ps"].to_numpy()
    known: list[int] = values_of(program).tolist()
    programs: dict[str, list[int]] = {}
    for number in known:
        programs.setdefault(_function(timeline.programs[number].name), []).append(number)
    for function, numbers in programs.items():
        begin, end = returns.of(function)
        if function and len(begin):
            of_function = np.flatnonzero(np.isin(program, numbers))
            found[of_function] = _matched(begin, end, start[of_function])
    return found


def _matched(begin: Longs, end: Longs, runs: Longs) -> Longs:
    """Return the ends of the calls of these runs; no call begins after its run."""
    before = np.searchsorted(begin, runs, side="right")
    missing = max(0, int((np.arange(1, len(runs) + 1) - before).max()))
    call = np.arange(len(runs)) - missing
    known = (call >= 0) & (call < len(end))
    return np.where(known, end[np.clip(call, 0, len(end) - 1)], NEVER)


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
