"""Python that a program calls while it runs: `pure_callback`, `io_callback`, `debug.print`.

The device waits for it, so its time is neither compute nor the launching thread's. Which of the
user's functions ran is known if the profile records Python.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import union
from counterpoint.diagnose.callback_ops import JAX_NAME, callback_ops
from counterpoint.diagnose.host.causes import matching
from counterpoint.diagnose.host.idle import by_device
from counterpoint.diagnose.host.profiler import traces_python
from counterpoint.diagnose.host.threads import TRACED
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.model import Lane, Timeline

_CALLS: Final = re.compile(r"\$callback\.py:\d+ __call__$|\$debugging\.py:\d+ _flat_callback$")
"""The frames of JAX that call the user's function."""
_WRAPPERS: Final = re.compile(r"\$(?:callback|debugging|tree_util|core|util)\.py:\d+ |\$builtins ")
"""Frames of JAX that run within these beside it."""

_JAX_NAMES: Final = {
    "pure_callback": "jax.pure_callback",
    "io_callback": "jax.experimental.io_callback",
    "debug_callback": "jax.debug.callback",
    "debug_print": "jax.debug.print",
}


@dataclass(frozen=True, slots=True)
class CalledFunction:
    """A function of the user's that JAX calls.

    `ms` is None if Python was only sampled: samples tell which function ran, not for how long.
    """

    name: str
    ms: float | None  # in a median step


@dataclass(frozen=True, slots=True)
class HostCallbacks:
    """The callbacks of a median step: how often they run, how long devices wait, for what."""

    count: float
    waits_ms: float  # while nothing else runs on the device
    ops: tuple[tuple[str, float], ...]  # name and place, with its time, longest first
    functions: tuple[CalledFunction, ...]  # longest first
    rows: tuple[int, ...]  # of the Timeline's ops


def host_callbacks(data: StepData) -> HostCallbacks | None:
    """Return the callbacks of the typical steps; None if there are none."""
    rows = callback_ops(data.timeline)
    if not rows:
        return None
    contains = (data.timeline.ops["lane"] == Lane.CONTROL).to_numpy()
    waits_ps = 0
    for _, windows, spans in by_device(data):
        op, start = spans["op"].to_numpy(), spans["start_ps"].to_numpy()
        end = start + spans["dur_ps"].to_numpy()
        own = np.isin(op, rows)
        others = ~own & ~contains[op]
        waits = union(start[own], end[own]) - union(start[others], end[others])
        waits_ps += (waits & union(*windows)).total
    taken = data.spans.filter(pl.col("op").is_in(rows) & pl.col("step").is_not_null())
    if not len(taken):
        return None
    scale = data.selection.scale
    by_op = taken.group_by("op").agg(pl.col("dur_ps").sum()).sort("dur_ps", descending=True)
    return HostCallbacks(
        count=len(taken) / data.selection.occurrences,
        waits_ms=waits_ps * scale,
        ops=tuple((_place(data.timeline, op), ps * scale) for op, ps in by_op.iter_rows()),
        functions=_functions(data, taken),
        rows=tuple(rows),
    )


def _place(timeline: Timeline, op: int) -> str:
    row = timeline.ops.row(op, named=True)
    named = JAX_NAME.match(row["op"] or row["name"])
    what = _JAX_NAMES[named[1]] if named else str(row["op"] or row["name"])
    return f"{what} ({row['source']})" if row["source"] else what


def _functions(data: StepData, taken: pl.DataFrame) -> tuple[CalledFunction, ...]:
    """Return the functions that JAX calls while the ops run, with their time.

    The profiler records the Python of some threads, and a callback may run on any: a function is
    taken to last as long in the calls of other threads as in those that are recorded.
    """
    names, events = data.timeline.host_names, data.timeline.host_events
    calls = matching(names, _CALLS)
    if not calls or not len(events):
        return ()
    recorded = traces_python(data.timeline)
    start = taken["start_ps"].to_numpy()
    end = start + taken["dur_ps"].to_numpy()
    begun, length = events["start_ps"].to_numpy(), events["dur_ps"].to_numpy()
    covered = union(start, end).covered(begun, begun + length)
    # A sampled frame is as long as the samples that show it are apart: it may exceed its op.
    inside = covered == length if recorded else covered > 0
    calling = events.filter(pl.col("name").is_in(calls))["line"].unique()
    traced = [index for index, name in enumerate(names) if name.startswith(TRACED)]
    own = events.filter(
        pl.Series(inside) & pl.col("line").is_in(calling.implode()) & pl.col("name").is_in(traced)
    ).sort("line", "start_ps", "dur_ps", descending=[False, False, True])
    wrappers = [index for index, name in enumerate(names) if _WRAPPERS.match(name)]
    called: dict[int, int] = {}
    for part in own.partition_by("line"):
        name, ps = part["name"].to_numpy(), part["dur_ps"].to_numpy()
        for at in _children(part, np.isin(name, calls), wrappers):
            called[int(name[at])] = called.get(int(name[at]), 0) + int(ps[at])
    begins = own.filter(pl.col("name").is_in(calls))["start_ps"].sort().to_numpy()
    seen = np.searchsorted(begins, end) > np.searchsorted(begins, start)
    scale = data.selection.scale * len(seen) / max(1, int(seen.sum()))
    return tuple(
        CalledFunction(names[name], ps * scale if recorded else None)
        for name, ps in sorted(called.items(), key=lambda item: -item[1])
    )


def _children(part: pl.DataFrame, is_call: NDArray[np.bool_], wrappers: Sequence[int]) -> list[int]:
    """Return the rows of the longest function that each of these calls makes."""
    name, start = part["name"].to_numpy(), part["start_ps"].to_numpy()
    end = start + part["dur_ps"].to_numpy()
    call = np.flatnonzero(is_call)
    if not len(call):
        return []
    owner = np.searchsorted(call, np.arange(len(name)), side="left") - 1
    around = call[np.maximum(owner, 0)]
    inside = (owner >= 0) & (end <= end[around]) & ~is_call & ~np.isin(name, wrappers)
    rows = np.flatnonzero(inside)
    if not len(rows):
        return []
    # The longest of a call's functions is the user's; of those equally long, the outer one.
    order = np.lexsort((rows, start[rows] - end[rows], owner[rows]))
    ordered = rows[order]
    first = np.append(True, owner[ordered][1:] != owner[ordered][:-1])
    return ordered[first].tolist()
