"""What a host thread does at each moment: its innermost event, and the cause that it stands for.

Events of a thread nest. An event that says nothing of itself does what the one around it does: a
helper of `jit` dispatches, a lock inside a data loader is input. Python that is in none of these is
Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.intervals import Intervals, union
from counterpoint.diagnose.host.causes import Cause

Longs = NDArray[np.int64]
CAUSES: Final = tuple(Cause)
_NONE: Final = -1
_SWALLOWED: Final = (CAUSES.index(Cause.INPUT), CAUSES.index(Cause.PYTHON))
_SWALLOWS: Final = (CAUSES.index(Cause.DISPATCH), CAUSES.index(Cause.COMPILE))
"""Tracing and dispatch call `next` by the thousand: inside of them that is no input."""


@dataclass(frozen=True, slots=True, eq=False)
class Thread:
    """Moments of one thread, disjoint and in order; what lies between them, nobody recorded."""

    start: Longs
    end: Longs
    name: Longs  # of the innermost event, an index into Timeline.host_names
    cause: Longs  # an index into CAUSES

    def during(self, *causes: Cause) -> Intervals:
        """When the thread does one of these."""
        chosen = np.isin(self.cause, [CAUSES.index(cause) for cause in causes])
        return union(self.start[chosen], self.end[chosen])


def thread(events: pl.DataFrame, own_cause: Sequence[Cause | None]) -> Thread:
    """Of one line's events; `own_cause` has an entry per name."""
    sorted_ = events.filter(pl.col("dur_ps") > 0).sort(
        "start_ps", "dur_ps", descending=[False, True], maintain_order=True
    )
    start = sorted_["start_ps"].to_numpy()
    end = start + sorted_["dur_ps"].to_numpy()
    name = sorted_["name"].to_numpy().astype(np.int64)
    table = np.array([_NONE if one is None else CAUSES.index(one) for one in own_cause], np.int64)
    parent, depth = _parents(start, end)
    cause = _inherit(table[name], parent, depth)
    at, state = _moments(start, end, parent, depth)
    kept = (state[:-1] != _NONE) & (at[1:] > at[:-1])
    inner = state[:-1][kept]
    return Thread(at[:-1][kept], at[1:][kept], name[inner], cause[inner])


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


def _inherit(cause: Longs, parent: Longs, depth: Longs) -> Longs:
    """From the outermost inwards: an event without a cause of its own has that around it."""
    found = cause.copy()
    found[(depth == 0) & (found == _NONE)] = CAUSES.index(Cause.PYTHON)
    for level in range(1, int(depth.max(initial=0)) + 1):
        mine = np.flatnonzero(depth == level)
        around = np.where(
            parent[mine] == _NONE, CAUSES.index(Cause.PYTHON), found[np.maximum(parent[mine], 0)]
        )
        own = found[mine]
        gives_way = np.isin(own, _SWALLOWED) & np.isin(around, _SWALLOWS)
        found[mine] = np.where((own == _NONE) | gives_way, around, own)
    return found


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
