"""Threads of a host: what each does at any time, as disjoint intervals with a cause.

Events of a thread nest. The innermost tells what the thread does; its cause may come from an event
around it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import EMPTY, Intervals, nesting_ends, order_by, union, values_of
from counterpoint.diagnose.host.causes import CAUSES, IdleCause, matching

Longs = NDArray[np.int64]
_NONE: Final = -1
_SWALLOWED: Final = (CAUSES.index(IdleCause.INPUT), CAUSES.index(IdleCause.PYTHON))
_SWALLOWS: Final = (CAUSES.index(IdleCause.DISPATCH), CAUSES.index(IdleCause.COMPILE))
"""Tracing and dispatch call `next` thousands of times; within them it is not input."""

_INPUT: Final = CAUSES.index(IdleCause.INPUT)
_THREAD: Final = CAUSES.index(IdleCause.THREAD)
_DISPATCH: Final = CAUSES.index(IdleCause.DISPATCH)
_TRANSFER: Final = CAUSES.index(IdleCause.TRANSFER)
_BLOCKED: Final = CAUSES.index(IdleCause.BLOCKED)
_NEVER: Final = int(np.iinfo(np.int64).min)
_PYTHON: Final = CAUSES.index(IdleCause.PYTHON)
_UNKNOWN: Final = CAUSES.index(IdleCause.UNKNOWN)
TRACED: Final = "$"
"""Prefix of the Python tracer's events."""

_FRAME: Final = re.compile(r"\$(\w+)\.py:\d+ ")
_WAIT: Final = re.compile(r"PjRt\w*Buffer::Await$")
"""Marks of one name where a wait for a buffer begins and where it ends, by the same thread."""

_ONLY_WAITS: Final = re.compile(
    r"PjRt\w*Buffer::Await$|BlockHostUntilReady|BlockUntilReady|block_until_ready|try_to_block"
)
"""Waits for a result of which nothing is read."""

_NUMPY_COPY: Final = re.compile(r"^\$numpy (?:array|asarray|ascontiguousarray|copy|copyto)$")

_COLLECTS: Final = re.compile(r"^\$\S+ _xla_gc_callback$")
_COLLECTS_FOR_JAX: Final = re.compile(r"^PythonRefManager::CollectGarbage$")

_RESTS: Final = re.compile(
    r"^\$(?:time sleep|select\b.*|\S+ (?:acquire|wait\w*|join|get|result|put|poll|select|accept"
    r"|recv\w*|read\w*|write\w*|flush|fsync|sleep|run_forever|_run_once))$"
)
_FOR_THREAD: Final = re.compile(
    r"^\$\S+ (?:acquire|wait|wait_for|join|_wait_for_tstate_lock|get|result|recv\w*|poll)$"
)
_UNDER_LOCK: Final = re.compile(r"^\$(?:\S+\.py:\d+|builtins) ")
"""Frames and built-in functions run under the interpreter's lock; other native code may not."""

_STANDARD: Final = sys.stdlib_module_names | {
    "_base",
    "connection",
    "futures",
    "pool",
    "process",
    "queues",
    "thread",
}
"""Files of Python's own library; the tracer names them without their directory."""


_WRAPPER: Final = re.compile(
    r"^\$(?:profiler\.py:\d+ wrapper|traceback_util\.py:\d+ reraise_with_filtered_traceback)$"
)
"""JAX's decorators: what they call is what was meant."""


def is_frame(name: str) -> bool:
    """Return whether an event is a frame of the program or of a package, by its name."""
    file = _FRAME.match(name)
    return file is not None and file[1] not in _STANDARD and not _WRAPPER.match(name)


@dataclass(frozen=True, slots=True, eq=False)
class Thread:
    """Disjoint intervals of one thread, in order; nothing is recorded between them."""

    start: Longs
    end: Longs
    name: Longs  # of the innermost event that tells what it does, an index into host_names
    cause: Longs  # an index into CAUSES
    giver: Longs  # of the event that determined the cause, an index into Timeline.host_names
    only_waits: Intervals  # for results of which it reads nothing
    for_copies: Intervals  # for results, after it began a copy and called nothing since
    since_copies: Intervals  # from the beginning of a copy to the next call

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


Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """What the names of a host's events say: an entry per name in each field."""

    cause: Longs  # an index into CAUSES; _NONE: none of its own
    traced: Flags  # by the Python tracer
    frame: Flags  # of the program or of a package
    wait_mark: Flags
    only_wait: Flags
    collects: Flags  # garbage: JAX is called where that begins and where it ends
    collects_for_jax: Flags  # within such a call
    numpy_copy: Flags
    rests: Flags  # calls in which a thread may well do nothing
    for_thread: Flags  # calls that wait for another thread
    under_lock: Flags  # the interpreter's


def named(names: Sequence[str], own_cause: Sequence[IdleCause | None]) -> Named:
    """Read the names once for all threads; `own_cause` has an entry per name."""

    def matched(pattern: re.Pattern[str]) -> Flags:
        flags = np.zeros(len(names), bool)
        flags[matching(names, pattern)] = True
        return flags

    return Named(
        cause=np.array(
            [_NONE if cause is None else CAUSES.index(cause) for cause in own_cause], np.int64
        ),
        traced=np.array([text.startswith(TRACED) for text in names], bool),
        frame=np.array([is_frame(text) for text in names], bool),
        wait_mark=matched(_WAIT),
        only_wait=matched(_ONLY_WAITS),
        collects=matched(_COLLECTS),
        collects_for_jax=matched(_COLLECTS_FOR_JAX),
        numpy_copy=matched(_NUMPY_COPY),
        rests=matched(_RESTS),
        for_thread=matched(_FOR_THREAD),
        under_lock=matched(_UNDER_LOCK),
    )


def thread(events: pl.DataFrame, names: Named) -> Thread:
    """Build the Thread of one line's events.

    Events of a thread nest. An event whose name implies no cause has that of the event around it: a
    helper of `jit` dispatches, a lock inside a data loader is input. Python in none of these is
    Python. An annotation around calls (a step's marker, an epoch) tells where the thread is, not
    what it does: without the Python tracer the time between the calls inside it is unknown.
    """
    joined = _joined(_joined(events, names.wait_mark), names.collects, names.collects_for_jax)
    start, end, name = _outer_first(joined)
    parent, depth = _parents(start, end)
    own = names.cause[name]
    own = _copies_of_loop(own, names.numpy_copy[name], parent, depth)
    for_copies = _waits_for_copies(start, end, own, parent)
    own[np.isin(name, _around_calls(name, own, parent, depth)) & ~names.traced[name]] = _UNKNOWN
    cause, gave = _inherit(own, parent, depth)
    giver = _callers(gave, cause, name, names, parent, depth)
    # What the program calls tells more than what that waits for: `get` of a queue, not its lock.
    shown = np.where((giver != gave) & (cause == _INPUT), gave, np.arange(len(name)))
    times, state = _moments(start, end, parent, depth)
    kept = (state[:-1] != _NONE) & (times[1:] > times[:-1])
    inner = state[:-1][kept]
    return Thread(
        times[:-1][kept],
        times[1:][kept],
        name[shown[inner]],
        cause[inner],
        name[giver[inner]],
        union(start[names.only_wait[name]], end[names.only_wait[name]]),
        for_copies,
        _since_copies(start, end, own, parent),
    )


def _joined(events: pl.DataFrame, marks: Flags, within_marks: Flags | None = None) -> pl.DataFrame:
    """Return a thread's events with each pair of marks as one event, from the first to the second.

    A thread that waits for a buffer, or collects garbage, begins nothing else, so the two marks
    follow each other. Of an odd number in a row one is missing: the profile began or ended there.
    """
    if not marks[events["name"].to_numpy()].any():
        return events
    ordered = events.sort("start_ps", maintain_order=True)
    if within_marks is not None:
        ordered = ordered.filter(pl.Series(~within_marks[ordered["name"].to_numpy()]))
    is_mark = marks[ordered["name"].to_numpy()]
    position = np.arange(len(is_mark))
    row = np.cumsum(is_mark & ~np.append(False, is_mark[:-1])) - 1
    begins = np.flatnonzero(is_mark & ~np.append(False, is_mark[:-1]))
    ends = np.flatnonzero(is_mark & ~np.append(is_mark[1:], False))
    cut = ((ends - begins) % 2 == 0) & (begins == 0)
    within = position - (begins + cut)[row]
    first = np.flatnonzero(is_mark & (within >= 0) & (within % 2 == 0) & (position < ends[row]))
    start, duration = ordered["start_ps"].to_numpy(), ordered["dur_ps"].to_numpy()
    pairs = ordered[first].with_columns(
        dur_ps=pl.Series(start[first + 1] + duration[first + 1] - start[first], dtype=pl.Int64)
    )
    return pl.concat([ordered.filter(pl.Series(~is_mark)), pairs])


def _copies_of_loop(own: Longs, copies: Flags, parent: Longs, depth: Longs) -> Longs:
    """Return causes with NumPy's copies as such where the loop itself makes them.

    Within a function of the program they are a part of what that does.
    """
    chosen = copies & (own == _NONE)
    if not chosen.any():
        return own
    loop = _containing(own == _DISPATCH, parent, depth)
    of_loop = (parent == _NONE) | loop[np.maximum(parent, 0)]
    return np.where(chosen & of_loop, _TRANSFER, own)


def _waits_for_copies(start: Longs, end: Longs, own: Longs, parent: Longs) -> Intervals:
    """Return the waits for results before which the thread began a copy, and called nothing since.

    A copy within the call of a program is part of the call.
    """
    around = np.where(parent == _NONE, _NONE, own[np.maximum(parent, 0)])
    called = np.sort(end[own == _DISPATCH])
    copied = np.sort(end[(own == _TRANSFER) & (around != _DISPATCH)])
    waits = np.flatnonzero(own == _BLOCKED)
    if not len(copied) or not len(waits):
        return EMPTY
    last_call, last_copy = (
        np.append(_NEVER, ends)[np.searchsorted(ends, start[waits], side="right")]
        for ends in (called, copied)
    )
    for_copies = waits[last_copy > last_call]
    return union(start[for_copies], end[for_copies])


def _since_copies(start: Longs, end: Longs, own: Longs, parent: Longs) -> Intervals:
    """Return the times after the thread began a copy until it calls a program."""
    around = np.where(parent == _NONE, _NONE, own[np.maximum(parent, 0)])
    copied = end[(own == _TRANSFER) & (around != _DISPATCH)]
    called = np.append(np.sort(start[own == _DISPATCH]), max(end.max(initial=0), 0))
    following = np.minimum(np.searchsorted(called, copied), len(called) - 1)
    return union(copied, np.maximum(copied, called[following]))


def _outer_first(events: pl.DataFrame) -> tuple[Longs, Longs, Longs]:
    """Return start, end and name of events with a length, in order of start, the longer first."""
    start, duration = events["start_ps"].to_numpy(), events["dur_ps"].to_numpy()
    order = order_by(start, -duration)
    order = order[duration[order] > 0]
    start = start[order]
    end = nesting_ends(start, start + duration[order])
    return start, end, events["name"].to_numpy()[order].astype(np.int64)


def _around_calls(name: Longs, own: Longs, parent: Longs, depth: Longs) -> Longs:
    """Return names of events without a cause of their own that contain calls of programs."""
    return values_of(name[_containing(own == _DISPATCH, parent, depth) & (own == _NONE)])


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
    inherited, giver = own.copy(), np.arange(len(own))
    inherited[(depth == 0) & (inherited == _NONE)] = _PYTHON
    for level in range(1, int(depth.max(initial=0)) + 1):
        level_events = np.flatnonzero(depth == level)
        outer = np.maximum(parent[level_events], 0)
        around = np.where(parent[level_events] == _NONE, _PYTHON, inherited[outer])
        own_causes = inherited[level_events]
        # Within an annotation, a named event without calls is Python that the user annotated.
        own_causes = np.where((own_causes == _NONE) & (around == _UNKNOWN), _PYTHON, own_causes)
        gives_way = np.isin(own_causes, _SWALLOWED) & np.isin(around, _SWALLOWS)
        # A lock inside a loader is input, and inside a call it is a part of that.
        gives_way |= (own_causes == _THREAD) & ~np.isin(around, (_PYTHON, _UNKNOWN))
        gives_way |= (own_causes == _NONE) | ((own_causes == _UNKNOWN) & (around == _PYTHON))
        inherited[level_events] = np.where(gives_way, around, own_causes)
        giver[level_events] = np.where(
            gives_way & (parent[level_events] != _NONE), giver[outer], level_events
        )
    return inherited, giver


def _callers(
    giver: Longs, cause: Longs, name: Longs, names: Named, parent: Longs, depth: Longs
) -> Longs:
    """Return, instead of an event in Python's own library, the program's frame that called it.

    Python that is nothing else belongs to what the training loop calls: `write` of a file to the
    function that saves a checkpoint. The loop is what calls programs, too.
    """
    frame, library = names.frame, names.traced & ~names.frame
    caller = np.where(frame[name], np.arange(len(name)), _NONE)
    loop = _containing(cause == _DISPATCH, parent, depth)
    called = np.where(~loop, np.arange(len(name)), _NONE)
    for level in range(1, int(depth.max(initial=0)) + 1):
        inside = np.flatnonzero((depth == level) & (parent != _NONE))
        outer = parent[inside]
        caller[inside] = np.where(caller[inside] == _NONE, caller[outer], caller[inside])
        called[inside] = np.where(called[outer] == _NONE, called[inside], called[outer])
    of_loop = np.where((called != _NONE) & frame[name[called]], called, caller)
    known = library[name[giver]] & (caller[giver] != _NONE)
    callers = np.where(cause == _PYTHON, of_loop, np.where(known, caller[giver], giver))
    return np.where(callers == _NONE, giver, callers)


def _containing(chosen: NDArray[np.bool_], parent: Longs, depth: Longs) -> NDArray[np.bool_]:
    """Return which events are chosen or contain one that is."""
    containing = chosen.copy()
    for level in range(int(depth.max(initial=0)), 0, -1):
        nested = np.flatnonzero((depth == level) & containing & (parent != _NONE))
        containing[parent[nested]] = True
    return containing


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
