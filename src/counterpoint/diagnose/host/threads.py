"""What a host thread does at each moment: its innermost event, and the cause that it stands for.

Events of a thread nest. An event that says nothing of itself does what the one around it does: a
helper of `jit` dispatches, a lock inside a data loader is input. Python that is in none of these is
Python. An annotation around calls (a step's marker, an epoch) tells where the thread is, not what
it does: without the Python tracer nothing is known of the moments between what is inside of it.
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
