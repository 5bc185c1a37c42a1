"""When the host launched each run of a program: the calls of jitted functions, matched with runs.

Where the profiler records which call launched a run, by the run's id, that is the match. Elsewhere
the calls of `f` and the runs of `jit_f` are matched in order. No run starts before its call; calls
from before the profile are not recorded, and neither is a call in which the profile stops. Of the
matches that this leaves, the one with the latest calls is taken: under it a device waits least for
nothing, and a run that counts as launched in time was.

Two matches fit where there is one run more than calls: the call of the first run or that of the
last is missing. If devices then wait about as long for nothing under both, it is not known which
holds. Where more calls are missing, the last ones may be: if runs follow their calls much sooner
then, it is not known either. Where a function is called for each of several devices in turn, the
calls and the runs of all of them have to alternate; else it is not known either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import Intervals, union, values_of
from counterpoint.diagnose.host.causes import matching
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.step_range import CALL

Longs = NDArray[np.int64]

_JIT: Final = re.compile(r"^p?jit_(.*)$")
_NOT_IN_NAMES: Final = re.compile(r"[^\w.-]")

NEVER: Final = int(np.iinfo(np.int64).max)
_ALWAYS: Final = int(np.iinfo(np.int64).min)

_CLEARLY: Final = 2
"""A match is taken if devices wait this many times longer for nothing under the other one."""


class Launched(NamedTuple):
    """When the call that launched each run had returned: not before one time, by the other.

    Both are equal where the call is known, and never if no call of the function is.
    """

    earliest: Longs
    latest: Longs


def calling_names(timeline: Timeline) -> Mapping[str, Sequence[int]]:
    """Return the names of the events that call each jitted function."""
    names: dict[str, list[int]] = {}
    for index in matching(timeline.host_names, CALL):
        if match := CALL.match(timeline.host_names[index]):
            names.setdefault(_as_in_hlo(match[1]), []).append(index)
    return names


def _as_in_hlo(function: str) -> str:
    """Return a function's name as it is in the name of its module: `_lambda` of `<lambda>`."""
    return _NOT_IN_NAMES.sub("_", function).rstrip("_")


class CallReturns:
    """The calls of jitted functions by a host, of the whole profile."""

    def __init__(self, calls: pl.DataFrame, calls_of: Mapping[str, Sequence[int]]) -> None:
        self._calls = calls
        self._calls_of = calls_of
        self._times_of: dict[str, tuple[Longs, Longs]] = {}
        self._lock = Lock()  # the devices of a host, on threads, ask for the same functions

    def of(self, function: str) -> tuple[Longs, Longs]:
        """Return begin and end of the calls of a function."""
        with self._lock:
            if function not in self._times_of:
                named = pl.col("name").is_in(self._calls_of.get(function, ()))
                self._times_of[function] = _outermost(self._calls.filter(named))
            return self._times_of[function]


def functions_of(timeline: Timeline) -> Sequence[str]:
    """Return the jitted function of each program; empty if its name tells none."""
    matches = (_JIT.match(entry.name) for entry in timeline.programs)
    return ["" if match is None else _as_in_hlo(match[1]) for match in matches]


class InTurn(NamedTuple):
    """Runs of a function whose calls launch one run each, on one of several devices."""

    starts: Longs  # of the runs of all devices, in order
    launched: Launched

    def of(self, starts: Longs) -> Launched:
        """Return when the runs that start at these times had been launched."""
        at = np.searchsorted(self.starts, starts)
        return Launched(self.launched.earliest[at], self.launched.latest[at])


def taking_turns(
    timeline: Timeline, returns: Mapping[int, CallReturns]
) -> Mapping[tuple[int, str], InTurn]:
    """Return by host and function the runs of functions that are called for each device.

    Elsewhere a call launches a run on every device. Calls for each device can be matched where
    calls and runs alternate; else the order of runs need not be that of calls.
    """
    functions = dict(enumerate(functions_of(timeline)))
    hosts = {index: device.host for index, device in enumerate(timeline.devices)}
    in_turn: dict[tuple[int, str], InTurn] = {}
    of_functions = timeline.runs.with_columns(
        function=pl.col("program").replace_strict(functions, return_dtype=pl.String),
        host=pl.col("device").replace_strict(hosts, return_dtype=pl.UInt32),
    ).partition_by("host", "function", as_dict=True)
    for (host, function), runs in of_functions.items():
        begin, end = returns[int(str(host))].of(str(function))
        calls, most = len(begin), int(runs.group_by("device").len()["len"].to_numpy().max())
        if abs(calls - len(runs)) >= abs(calls - most):
            continue
        starts = runs["start_ps"].sort().to_numpy()
        number = np.searchsorted(begin, starts, side="right")  # calls before each run
        match = Launched(np.full(len(starts), _ALWAYS), np.full(len(starts), NEVER))
        if calls and (np.diff(number)[:-1] == 1).all():  # the last call may have been cut off
            match = _in_order(begin, end, starts, idle_since=starts)
        in_turn[int(str(host)), str(function)] = InTurn(starts, match)
    return in_turn


def launched(
    timeline: Timeline, runs: pl.DataFrame, returns: CallReturns, turns: Mapping[str, InTurn]
) -> Launched:
    """Return when each run had been launched.

    `runs` are those of one device in order of start. Both must cover the whole profile: a run after
    the last call would look as if a call was lost. `turns` are the functions that are called for
    each device.
    """
    recorded = runs["launched_ps"].fill_null(NEVER).to_numpy()
    earliest, latest = recorded.copy(), recorded.copy()
    program = runs["program"].to_numpy()
    start, end = runs["start_ps"].to_numpy(), runs["end_ps"].to_numpy()
    idle_since = np.append(_ALWAYS, np.maximum.accumulate(end)[:-1]) if len(end) else end
    functions = functions_of(timeline)
    known: list[int] = values_of(program).tolist()
    programs: dict[str, list[int]] = {}
    for number in known:
        programs.setdefault(functions[number], []).append(number)
    for function, numbers in programs.items():
        own = np.flatnonzero(np.isin(program, numbers))
        if not function or (recorded[own] != NEVER).all():
            continue
        begin, end = returns.of(function)
        if not len(begin):
            continue
        matched = (
            turns[function].of(start[own])
            if function in turns
            else _in_order(begin, end, start[own], idle_since[own])
        )
        ordered = recorded[own] == NEVER
        earliest[own[ordered]] = matched.earliest[ordered]
        latest[own[ordered]] = matched.latest[ordered]
    return Launched(earliest, latest)


def _in_order(begin: Longs, end: Longs, runs: Longs, idle_since: Longs) -> Launched:
    """Match calls with the runs of their function, which start after them.

    `idle_since` is when the device had finished the run before each.
    """
    lacking = np.arange(1, len(runs) + 1) - np.searchsorted(begin, runs, side="right")
    missing = max(0, int(lacking[:-1].max(initial=0)))
    last_is_cut = len(begin) + missing == len(runs) - 1 and runs[-1] >= end[-1]
    if not last_is_cut:
        missing = max(missing, int(lacking[-1]))
    sooner = _shifted(begin, end, runs, missing)
    # No run starts before its call, so at least these calls are missing. The others may be missing
    # after the last recorded one: where runs follow their calls much sooner then, who knows.
    least = int((np.searchsorted(runs, begin) - np.arange(len(begin))).max())
    if len(runs) - len(begin) - least > 1:
        later = _shifted(begin, end, runs, least)
        both = slice(missing, least + len(begin))  # runs that have a call under either match
        if _CLEARLY * _waits(later, both, runs, idle_since) <= _waits(
            sooner, both, runs, idle_since
        ):
            earliest = np.minimum(sooner.earliest, later.earliest)
            return Launched(earliest, np.maximum(sooner.latest, later.latest))
    if not last_is_cut:
        return sooner
    other = _shifted(begin, end, runs, missing + 1)
    both = slice(missing + 1, len(runs) - 1)
    if _CLEARLY * _waits(sooner, both, runs, idle_since) <= _waits(other, both, runs, idle_since):
        return sooner
    return Launched(np.minimum(sooner.earliest, other.earliest), sooner.latest)


def _waits(match: Launched, both: slice, runs: Longs, idle_since: Longs) -> int:
    """Return how long devices wait for nothing: a run had been launched, and they were idle."""
    return int(np.maximum(runs - np.maximum(match.latest, idle_since), 0)[both].sum())


def _shifted(begin: Longs, end: Longs, runs: Longs, missing: int) -> Launched:
    """Match the runs with calls, of which the first `missing` were not recorded."""
    call = np.arange(len(runs)) - missing
    known = end[np.clip(call, 0, len(end) - 1)]
    before, cut = call < 0, call >= len(end)
    earliest = np.where(before, _ALWAYS, known)  # a call that was cut off began after the last one
    latest = np.where(before, begin[0], np.where(cut, runs, known))
    return Launched(earliest, latest)


def _outermost(calls: pl.DataFrame) -> tuple[Longs, Longs]:
    """Return calls without nested ones: `jit` within `jit`, and a wrapper's own event."""
    ordered = calls.sort("line", "start_ps", "dur_ps", descending=[False, False, True])
    outer = ordered.filter(
        (pl.col("start_ps") + pl.col("dur_ps"))
        > (pl.col("start_ps") + pl.col("dur_ps"))
        .cum_max()
        .shift(1, fill_value=_ALWAYS)
        .over("line")
    ).sort("start_ps")
    begin = outer["start_ps"].to_numpy()
    return begin, begin + outer["dur_ps"].to_numpy()


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
