"""Events grouped by track (a thread of a process), stored as four integers each.

The properties of an event (its name, its instruction, ...) are stored once, as an EventKind; an
event is then (kind, run, start, duration). The role of a track (a stream, a host thread) is
determined later (roles.py), because some tools write process names after the events.

Reference: the Trace Event Format, phases X (complete), B and E (begin, end), M (names). Counters,
instants, flows and async events are counted, not read.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from counterpoint.timeline.chrome.stream import CutOff, Event, TraceClock, duration_ps
from counterpoint.timeline.late_ends import END
from counterpoint.timeline.megascale import NUMBERS, TEXTS, TRANSFER_PREFIXES

ThreadKey = tuple[int | str, int | str]
"""Process and thread."""

Rows = NDArray[np.int64]
"""The columns of an event in a track: kind, run, start, duration."""

KIND, RUN, START, DURATION = range(4)

NO_RUN: Final = -(1 << 63)

# Marks written by the thread pool, without a length.
_BOOKKEEPING: Final = "ThreadpoolListener::"

_ARGS: Final = (
    *("hlo_op", "hlo_module", "program_id", "device_ordinal", "step_num", "hlo_category", "tf_op"),
    *("name", "source", "flops", "model_flops", "bytes_accessed", "long_name", "device"),
    *("Collective name", "In msg nelems", "Out msg nelems", "dtype", "Group size", "bytes"),
)
_SAID: Final = (*("category", "phase", "scope", "collective", "bytes", "group_size", "bus_factor"),)


class EventKind(NamedTuple):
    """Properties shared by many events; None where the trace lacks them."""

    name: str
    cat: object = None
    hlo_op: object = None
    hlo_module: object = None
    program_id: object = None
    device_ordinal: object = None
    step_num: object = None
    hlo_category: object = None
    tf_op: object = None
    scope: object = None  # args.name: the op_name path on GPU streams
    source: object = None
    flops: object = None
    model_flops: object = None
    bytes_accessed: object = None
    long_name: object = None
    device: object = None  # Kineto's, like the next six
    sent_by: object = None  # what PyTorch calls the collective
    elements_in: object = None
    elements_out: object = None
    element_type: object = None
    group_size: object = None
    copied: object = None  # bytes of one copy
    carries: object = None  # args of an event that describes a transfer, with their names
    # Fields of the original Timeline, if the trace was written from one.
    said_category: object = None
    said_phase: object = None
    said_scope: object = None
    said_collective: object = None
    said_bytes: object = None
    said_group_size: object = None
    said_bus_factor: object = None


@dataclass(slots=True)
class Tracks:
    """All data read from a trace."""

    process_names: dict[int | str, str] = field(default_factory=dict[int | str, str])
    thread_names: dict[ThreadKey, str] = field(default_factory=dict[ThreadKey, str])
    rows: dict[ThreadKey, array[int]] = field(default_factory=dict[ThreadKey, "array[int]"])
    ends: dict[ThreadKey, array[int]] = field(default_factory=dict[ThreadKey, "array[int]"])
    """Marks of ends of ops, half of all events of a CPU trace: the op's name, and the time."""
    ended: dict[str, int] = field(default_factory=dict[str, int])
    """The numbers of names in `ends`."""
    kinds: dict[tuple[object, ...], int] = field(default_factory=dict[tuple[object, ...], int])
    ours: bool = False  # the trace was written from a Timeline
    complete: int = 0  # events of phase X
    bookkeeping: int = 0
    unreadable: int = 0
    unpaired: int = 0
    other_phases: Counter[str] = field(default_factory=Counter[str])
    cut: str | None = None
    origin_us: int = 0  # the time in the trace from which all times count

    def all_kinds(self) -> list[EventKind]:
        """Return all kinds, each at its number."""
        return [EventKind(*cast("tuple[str]", kind)) for kind in self.kinds]

    def process(self, track: ThreadKey) -> str:
        """Return the name of a track's process."""
        return self.process_names.get(track[0], str(track[0]))

    def thread(self, track: ThreadKey) -> str:
        """Return the name of a track's thread."""
        return self.thread_names.get(track, str(track[1]))


def gather(events: Iterable[Event], *, ours: bool = False) -> Tracks:
    """Read all events up to a cut; `ours` is true if the trace was written from a Timeline."""
    tracks = Tracks(ours=ours)
    clock, open_events = TraceClock(), dict[ThreadKey, list[tuple[Event, int]]]()
    try:
        for event in events:
            phase = event.get("ph")
            if phase == "X":
                tracks.complete += 1
                name = event.get("name")
                if isinstance(name, str) and name.startswith(_BOOKKEEPING):
                    tracks.bookkeeping += 1
                    continue
                start = clock.start_ps(event.get("ts"))
                if isinstance(name, str) and name.startswith(END):
                    _end(tracks, event, name.removeprefix(END), start)
                    continue
                _put(tracks, event, start, duration_ps(event.get("dur")))
            elif phase == "M":
                _name(tracks, event)
            elif phase == "B" or phase == "E":  # noqa: PLR1714  (a set would hash a list)
                _pair(tracks, open_events, event, clock.start_ps(event.get("ts")))
            elif isinstance(phase, str) and phase:
                tracks.other_phases[phase[0]] += 1
    except CutOff as cut:
        tracks.cut = str(cut)
    tracks.unpaired += sum(map(len, open_events.values()))
    tracks.origin_us = clock.origin_us
    return tracks


def _put(tracks: Tracks, event: Event, start: int | None, duration: int | None) -> None:
    process, thread = event.get("pid", 0), event.get("tid", 0)
    if (
        start is None
        or duration is None
        or not isinstance(process, int | str)
        or not isinstance(thread, int | str)
    ):
        tracks.unreadable += 1
        return
    args, run = event.get("args"), NO_RUN
    if isinstance(args, dict):
        known = cast(Mapping[str, object], args)
        name = event.get("name")
        kind = (name, event.get("cat"), *map(known.get, _ARGS), _carried(name, known))
        if tracks.ours:
            kind += (*map(known.get, _SAID),)
        if "run_id" in known:
            run = _integer(known["run_id"])
    else:
        kind = (event.get("name"), event.get("cat"), *(None,) * len(_ARGS))
    try:
        number = tracks.kinds.setdefault(kind, len(tracks.kinds))
    except TypeError:  # unhashable: a list in place of a string
        plain = tuple(part if isinstance(part, str | int | Decimal) else None for part in kind)
        number = tracks.kinds.setdefault(plain, len(tracks.kinds))
    rows = tracks.rows.get((process, thread))
    if rows is None:
        rows = tracks.rows[process, thread] = array("q")
    rows.extend((number, run, start, duration))


def _end(tracks: Tracks, event: Event, op: str, at: int | None) -> None:
    process, thread = event.get("pid", 0), event.get("tid", 0)
    if at is None or not isinstance(process, int | str) or not isinstance(thread, int | str):
        tracks.unreadable += 1
        return
    number = tracks.ended.setdefault(op, len(tracks.ended))
    tracks.ends.setdefault((process, thread), array("q")).extend((number, at))


def _carried(name: object, args: Mapping[str, object]) -> object:
    """Return the args of an event that describes a transfer; they differ from event to event."""
    if not isinstance(name, str) or not name.startswith(TRANSFER_PREFIXES):
        return None
    known = ((arg, args[arg]) for arg in (*NUMBERS, *TEXTS) if arg in args)
    return tuple((arg, str(value)) for arg, value in known)


def _pair(
    tracks: Tracks,
    open_events: dict[ThreadKey, list[tuple[Event, int]]],
    event: Event,
    at: int | None,
) -> None:
    """Pair an E with the last open B of its thread."""
    process, thread = event.get("pid", 0), event.get("tid", 0)
    if at is None or not isinstance(process, int | str) or not isinstance(thread, int | str):
        tracks.unreadable += 1
        return
    stack = open_events.setdefault((process, thread), [])
    if event["ph"] == "B":
        stack.append((event, at))
    elif stack and stack[-1][1] <= at:
        begin, start = stack.pop()
        _put(tracks, begin, start, at - start)
    else:
        tracks.unpaired += 1


def _name(tracks: Tracks, event: Event) -> None:
    args, process = event.get("args"), event.get("pid", 0)
    if not isinstance(args, dict) or not isinstance(process, int | str):
        return
    name = cast(Mapping[str, object], args).get("name")
    if not isinstance(name, str):
        return
    thread = event.get("tid", 0)
    if event.get("name") == "process_name":
        tracks.process_names[process] = name
    elif event.get("name") == "thread_name" and isinstance(thread, int | str):
        tracks.thread_names[process, thread] = name


def _integer(value: object) -> int:
    """Return a run's number, which XLA writes as text."""
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) < 21:
        value = int(value)
    return value if isinstance(value, int) and abs(value) < 1 << 63 else NO_RUN


def integer(value: object) -> int | None:
    """Parse a whole number, which XLA writes as text."""
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < 19 else None
    return value if isinstance(value, int) and abs(value) < 1 << 62 else None
