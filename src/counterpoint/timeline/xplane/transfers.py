"""Reads the events of an XPlane that describe transfers, as the table TRANSFER_EVENTS.

They are mixed with all others on host threads: those lines are read a second time, for their ids
alone, and stats are read only for these few events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import distinct
from counterpoint.core.wire import LENGTH, Malformed, fields
from counterpoint.timeline.megascale import (
    NUMBERS,
    TEXTS,
    TRANSFER_EVENTS,
    is_copy,
    is_transport,
    message_action,
)
from counterpoint.timeline.model import Action
from counterpoint.timeline.xplane.events import Events, EventSelection, Stat
from counterpoint.timeline.xplane.planes import EventName, Plane

_STATS: Final = (*NUMBERS, *TEXTS)


def wanted_actions(plane: Plane) -> EventSelection:
    """Select all events of Megascale's plane."""
    return EventSelection(_stat_ids(plane), frozenset())


class Messages:
    """Selects events of a host plane's lines that describe transfers; checks each name once."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._tells = {
            key: action
            for key, event in plane.event_names.items()
            if (action := message_action(_name(event))) is not None
        }

    def of(self, line: str) -> tuple[EventSelection, Mapping[str, Action]] | None:
        """Return the events to read of a line, and each name's action; None if there are none."""
        events, actions = self._plane.event_names, self._tells
        if is_transport(line):
            copies = (key for key, event in events.items() if is_copy(_name(event)))
            actions = dict.fromkeys(copies, Action.MEMORY_COPY) | actions
        if not actions:
            return None
        names = {_name(events[key]): action for key, action in actions.items()}
        return EventSelection(_stat_ids(self._plane), frozenset(events.keys() - actions)), names


def table(plane: Plane, line: int, events: Events, start_ps: NDArray[np.int64]) -> pl.DataFrame:
    """Return a table TRANSFER_EVENTS; missing stats are taken from the event's name."""
    kinds, code = distinct([events.metadata])
    named = [plane.event_names.get(key) for key in events.metadata[kinds].tolist()]
    columns = {
        "event": pl.Series([_name(event) for event in named], dtype=pl.String).gather(code),
        "line": np.full(len(events), line, np.uint32),
        "start_ps": start_ps,
        "dur_ps": events.duration_ps,
        **{name: _number(plane, events.stats.get(name), len(events)) for name in NUMBERS},
        **{name: _text(plane, events.stats.get(name), len(events)) for name in TEXTS},
    }
    events_table = pl.DataFrame(columns).select(*TRANSFER_EVENTS).cast({**TRANSFER_EVENTS})
    shared = pl.DataFrame(
        [tuple(_shared(event, name) for name in _STATS) for event in named],
        schema=dict.fromkeys(_STATS, pl.String),
        orient="row",
    )
    if all(shared[name].null_count() == len(shared) for name in _STATS):
        return events_table
    shared = shared[pl.Series(code)]
    return events_table.with_columns(
        pl.coalesce(name, shared[name].cast(TRANSFER_EVENTS[name], strict=False)) for name in _STATS
    )


def _stat_ids(plane: Plane) -> dict[int, str]:
    return {plane.stat_ids[name]: name for name in _STATS if name in plane.stat_ids}


def _name(event: EventName | None) -> str:
    return (event.display or event.name) if event else ""


def _shared(event: EventName | None, stat: str) -> str | None:
    value = event.stats.get(stat) if event else None
    return str(value) if isinstance(value, int | str) else None


def _number(plane: Plane, stat: Stat | None, rows: int) -> pl.Series:
    if stat is None:
        return pl.Series([None], dtype=pl.Int64).new_from_index(0, rows)
    numbers = _known(pl.Series(stat.value), stat.known & ~stat.is_text)
    if not stat.is_text.any():
        return numbers
    return _coalesced(numbers, _spelled(plane, stat).cast(pl.Int64, strict=False))


def _text(plane: Plane, stat: Stat | None, rows: int) -> pl.Series:
    if stat is None:
        return pl.Series([None], dtype=pl.String).new_from_index(0, rows)
    numbers = _known(pl.Series(stat.value), stat.known & ~stat.is_text)
    return _coalesced(_spelled(plane, stat), numbers.cast(pl.String))


def _spelled(plane: Plane, stat: Stat) -> pl.Series:
    first, code = distinct([np.where(stat.is_text, stat.value, -1)])
    keys = np.where(stat.is_text[first], stat.value[first], -1).tolist()
    return pl.Series([plane.strings.get(key) for key in keys], dtype=pl.String).gather(code)


def _known(values: pl.Series, known: NDArray[np.bool_]) -> pl.Series:
    return pl.select(pl.when(pl.Series(known)).then(values)).to_series()


def _coalesced(first: pl.Series, second: pl.Series) -> pl.Series:
    return pl.select(pl.coalesce(first, second)).to_series()


COLLECTIVE_STAT: Final = "dcn_collective_info"

_GROUPS: Final = 2
_ENDPOINTS: Final = 1


def group_size(stat: object) -> int | None:
    """Return the number of endpoints of the first group; None if it is missing or unreadable.

    The argument is xprof's DcnCollectiveInfoProto {1 transfer_type, 2 endpoint_groups {1
    endpoints}, 3 one_to_one_groups}, from plugin/xprof/protobuf/dcn_collective_info.proto.
    """
    if not isinstance(stat, bytes):
        return None
    data = memoryview(stat)
    try:
        for number, wire, start, end in fields(data, 0, len(data)):
            if number == _GROUPS and wire == LENGTH:
                inside = fields(data, start, end)
                return sum(1 for field, kind, *_ in inside if (field, kind) == (_ENDPOINTS, LENGTH))
    except Malformed:
        return None
    return None


_NESTED: Final = "::"
_GRAPH: Final = "command_buffer"
_CALL: Final = re.compile(r"call(\.\d+)*$")

GRAPH_STAT: Final = "cuda_graph_id"
"""A stat that only work inside CUDA graphs has."""

LAUNCHED_PLAINLY: Final = "WARNING: CommandBuffer disabled when profiling"
"""A host event: XLA launches ops of a CUDA graph one by one while a profiler is active."""


def instruction(hlo_op: str | None, in_graph: bool) -> str | None:
    """Return the instruction in the stat `hlo_op`, if it names one.

    XLA annotates each launch: `XlaModule:#prefix=..,hlo_module=..,program_id=..#` outside and
    `Thunk:#name=..,hlo_op=..#` inside. The profiler turns every key into a stat; the innermost
    wins. Kernels of a CUDA graph carry the annotation of the graph's launch, which is not their
    instruction, unless the profiler knows what each node of the graph was built for.

    Reference: xla/backends/gpu/runtime/annotation.cc, xla/backends/profiler/gpu/cupti_collector.cc.
    """
    if hlo_op is None:
        return None
    innermost = hlo_op.rpartition(_NESTED)[2]
    if innermost.startswith(_GRAPH) or (in_graph and _CALL.match(innermost)):
        return None
    return innermost


def scope(prefix: str | None, name: str | None) -> str | None:
    """Return the whole scope; `name` lacks the prefix that all instructions of the module share."""
    if not prefix or not name:
        return prefix or name
    shares_root = name.partition("/")[0] == prefix.partition("/")[0]
    return name if shares_root else f"{prefix}/{name}"
