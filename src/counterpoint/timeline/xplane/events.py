"""The events of one line of an XPlane, as columns.

XEvent {1 metadata_id, 2 offset_ps | 5 num_occurrences, 3 duration_ps, 4 stats} XStat  {1
metadata_id, 2 double, 3 uint64, 4 int64, 5 str, 6 bytes, 7 ref}

Fields are expected in the order in which C++ writes them; an event with another order is decoded
field by field, more slowly, with the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from counterpoint.core.wire import FIXED64, LENGTH, VARINT, Malformed, fields, varint
from counterpoint.timeline.xplane.wire import Positions, WireBlock, signed, text_at

T = TypeVar("T")

EVENTS_TAG: Final = 0x22
STATS_TAG: Final = 0x22
_BATCH: Final = 16_384
"""Number of events decoded at a time, so that the working columns stay in the processor's cache."""

_BLOCK_BYTES: Final = 8 << 20
LARGEST_ID: Final = 1 << 20

_OFFSET_FIELD: Final = 2
_OCCURRENCES_FIELD: Final = 5
_TIMED: Final = 3  # index in `values` of the slow path: whether the event has a time

_ID, _OFFSET, _DURATION = 0x08, 0x10, 0x18
_REF_VALUE, _INT_VALUE, _UINT_VALUE = 0x38, 0x20, 0x18
_TEXT_VALUE, _BYTES_VALUE = 0x2A, 0x32
_DOUBLE, _NUMBERS, _TEXTS = 2, (3, 4, 7), (5, 6)
"""The fields of a stat that are values; of others a later version may have made use."""

# A stat under 128 bytes with an id under 128: one load of eight bytes holds all but its value.
_SHORT_MASK: Final = np.uint64(0x80FF80FF)
_SHORT: Final = np.uint64(_ID << 16 | STATS_TAG)


class Strings:
    """Names that stats refer to, extended by the texts that events spell out."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = dict(names)
        self._ids: dict[str, int] = {}
        self._next = max(names, default=0) + 1

    def __getitem__(self, key: int) -> str:
        return self._names[key]

    def get(self, key: int) -> str | None:
        """Return the name of an id."""
        return self._names.get(key)

    def intern(self, text: str) -> int:
        """Return an id for a text, the same for equal texts."""
        known = self._ids.get(text)
        if known is None:
            known = self._ids[text] = self._next
            self._names[known] = text
            self._next += 1
        return known


@dataclass(frozen=True, slots=True, eq=False)
class Stat:
    """One stat over all events: `value` is a number, or an id in Strings if `is_text`."""

    value: NDArray[np.int64]
    known: NDArray[np.bool_]
    is_text: NDArray[np.bool_]

    def only(self, rows: NDArray[np.int64]) -> Stat:
        """Return the stat of some of the events."""
        return Stat(self.value[rows], self.known[rows], self.is_text[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Columns of a batch of events; `offset_ps` is relative to the line's start."""

    metadata: NDArray[np.int64]
    offset_ps: NDArray[np.int64]
    duration_ps: NDArray[np.int64]
    stats: Mapping[str, Stat]
    summaries: int = 0  # records of many events at once: they have no time and are left out

    def __len__(self) -> int:
        return len(self.metadata)

    def known(self, stat: str) -> NDArray[np.bool_]:
        """Return which events have this stat."""
        values = self.stats.get(stat)
        return values.known if values is not None else np.zeros(len(self), bool)

    def select(self, mask: NDArray[np.bool_], stats: Iterable[str] = ()) -> Events:
        """Return some of the events, with these stats only."""
        rows = np.flatnonzero(mask)
        if len(rows) == len(mask):
            of_all = {name: self.stats[name] for name in stats}
            return Events(self.metadata, self.offset_ps, self.duration_ps, of_all)
        return Events(
            self.metadata[rows],
            self.offset_ps[rows],
            self.duration_ps[rows],
            {name: self.stats[name].only(rows) for name in stats},
        )


@dataclass(frozen=True, slots=True)
class EventSelection:
    """The events to keep and the stats to read.

    `skipped` holds metadata ids of the profiler's internal events; stats are read only for the
    rest. `stats` maps a stat's metadata id to the name of its column, `ends` the id of the mark of
    an op's end to that of the op.
    """

    stats: Mapping[int, str]
    skipped: frozenset[int]
    ends: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def columns(self) -> Sequence[str]:
        """Names of the stat columns."""
        return sorted(set(self.stats.values()))


def decode_in_python(
    data: memoryview, start: int, end: int, wanted: EventSelection, strings: Strings
) -> Iterator[tuple[Events, int, int]]:
    """Yield batches of a block of events, with how many were skipped, and where it ends."""
    block, starts, stop = _next_block(data, start, end)
    _, taken = block.varints(starts + 1)
    bodies, ends = starts + 1 + taken, np.append(starts[1:], stop)
    for first in range(0, len(starts), _BATCH):
        batch = slice(first, first + _BATCH)
        events, skipped = _decode(block, bodies[batch], ends[batch], wanted, strings)
        yield events, skipped, start + stop


def _next_block(data: memoryview, start: int, end: int) -> tuple[WireBlock, Positions, int]:
    """Return a block with at least one whole event; larger than usual if that event is."""
    room = _BLOCK_BYTES
    while True:
        block = WireBlock(data[start : min(end, start + room)])
        starts, stop = block.entries(EVENTS_TAG)
        if stop:
            return block, starts, stop
        if start + room >= end:
            raise Malformed(f"an event is cut off at offset {start}")
        room *= 4


def _decode(
    block: WireBlock, at: Positions, end: Positions, wanted: EventSelection, strings: Strings
) -> tuple[Events, int]:
    metadata, at = _ordered_field(block, at, end, _ID)
    if wanted.skipped:
        kept = ~np.isin(metadata, np.fromiter(wanted.skipped, np.int64, len(wanted.skipped)))
        metadata, at, end = metadata[kept], at[kept], end[kept]
        skipped = len(kept) - len(metadata)
    else:
        skipped = 0
    offset, at = _ordered_field(block, at, end, _OFFSET)
    duration, at = _ordered_field(block, at, end, _DURATION)
    if (at > end).any():
        raise Malformed("a number extends beyond its event")
    columns = _StatColumns(wanted.columns, len(metadata))
    at = _decode_stats(block, at, end, wanted, strings, columns)
    timed = np.ones(len(metadata), bool)
    for row in np.flatnonzero(at < end):
        # The ordered path decoded the fields it found; the rest is read field by field.
        body = (int(at[row]), int(end[row]))
        values = [int(metadata[row]), int(offset[row]), int(duration[row]), 1]
        _decode_slowly(block, body, values, wanted, strings, columns, int(row))
        metadata[row], offset[row], duration[row], timed[row] = values
    if timed.all():
        return Events(metadata, offset, duration, columns.finished()), skipped
    stats = columns.finished(timed)
    summaries = len(timed) - int(timed.sum())
    return Events(metadata[timed], offset[timed], duration[timed], stats, summaries), skipped


def _ordered_field(
    block: WireBlock, at: Positions, end: Positions, tag: int
) -> tuple[NDArray[np.int64], Positions]:
    """Return the next varint field if it has this tag, else 0; and the positions after it."""
    has_field = (at < end) & (block.bytes[at] == tag)
    value, size = block.varints(at + 1)
    if has_field.all():
        return value.view(np.int64), at + 1 + size
    zero = np.int64(0)
    return np.where(has_field, value.view(np.int64), zero), at + np.where(has_field, 1 + size, zero)


class _StatColumns:
    """Stat columns being filled."""

    def __init__(self, names: Sequence[str], rows: int) -> None:
        self.value = {name: np.zeros(rows, np.int64) for name in names}
        self.known = {name: np.zeros(rows, bool) for name in names}
        self.is_text = {name: np.zeros(rows, bool) for name in names}

    def put(self, name: str, rows: Positions, value: NDArray[np.int64], text: bool) -> None:
        self.value[name][rows] = value
        self.known[name][rows] = True
        self.is_text[name][rows] = text

    def finished(self, rows: NDArray[np.bool_] | EllipsisType = ...) -> dict[str, Stat]:
        return {
            name: Stat(self.value[name][rows], self.known[name][rows], self.is_text[name][rows])
            for name in self.value
        }


def _decode_stats(
    block: WireBlock,
    at: Positions,
    end: Positions,
    wanted: EventSelection,
    strings: Strings,
    columns: _StatColumns,
) -> Positions:
    """Read the k-th stat of every event at once, for k = 0, 1, ... until none has another.

    Return the position reached for each event: before its end, if C++ would not have written it so.
    """
    slot_of = slots(wanted)
    ended = at.copy()
    rows = np.flatnonzero(at < end)
    at, end = at[rows], end[rows]
    while len(rows):
        stats = _short_stats(block, at, end)
        if stats is None:
            regular, stats = _any_stats(block, at, end)
            rows, end = rows[regular], end[regular]
        slot = slot_of.take(stats.stat, mode="clip")
        requested = np.flatnonzero(slot >= 0)
        if len(requested):
            values = stats if len(requested) == len(rows) else stats.only(requested)
            _put_values(block, rows[requested], slot[requested], values, strings, columns)
        ended[rows] = stats.after
        more = stats.after < end
        rows, at, end = rows[more], stats.after[more], end[more]
    return ended


@dataclass(frozen=True, slots=True, eq=False)
class _Stats:
    """One stat of each event: its id, its value's tag (0: none) and position, and its end."""

    stat: NDArray[np.int64]
    tag: NDArray[np.uint8]
    value_at: Positions
    after: Positions

    def only(self, rows: Positions) -> _Stats:
        return _Stats(self.stat[rows], self.tag[rows], self.value_at[rows], self.after[rows])


def _short_stats(block: WireBlock, at: Positions, end: Positions) -> _Stats | None:
    """Return the stats at these positions if all are short, as nearly all are."""
    word = block.words[at]
    if ((word & _SHORT_MASK) != _SHORT).any():
        return None
    after = at + 2 + ((word >> np.uint64(8)) & np.uint64(0x7F)).view(np.int64)
    if (after > end).any():
        raise Malformed("the stats of an event are damaged")
    stat = ((word >> np.uint64(24)) & np.uint64(0x7F)).view(np.int64)
    tag = np.where(at + 4 < after, (word >> np.uint64(32)).astype(np.uint8), np.uint8(0))
    return _Stats(stat, tag, at + 4, after)


def _any_stats(block: WireBlock, at: Positions, end: Positions) -> tuple[NDArray[np.bool_], _Stats]:
    """Return which positions hold a stat as C++ writes it, and those stats."""
    body, after = _next_stat(block, at, end)
    regular = (block.bytes[at] == STATS_TAG) & (block.bytes[body] == _ID)
    after = after[regular]
    stat, value_at = _ordered_field(block, body[regular], after, _ID)
    tag = np.where(value_at < after, block.bytes[value_at], np.uint8(0))
    return regular, _Stats(stat, tag, value_at, after)


def slots(wanted: EventSelection) -> NDArray[np.int8]:
    """Return the column of each stat id, or -1; ids count up from 1, so the table is small."""
    last = max(wanted.stats, default=0)
    if last > LARGEST_ID or min(wanted.stats, default=0) < 0:
        raise Malformed(f"{last} is not the id of a stat")
    names = wanted.columns
    slots = np.full(last + 2, -1, np.int8)
    for stat, name in wanted.stats.items():
        slots[stat] = names.index(name)
    return slots


def _next_stat(block: WireBlock, at: Positions, end: Positions) -> tuple[Positions, Positions]:
    """Return where the body of the stat at each position starts and ends."""
    word = block.words[at]
    size = ((word >> np.uint64(8)) & np.uint64(0x7F)).astype(np.int64)
    body = at + 2
    if (word & np.uint64(0x8000)).any():
        long_size, taken = block.varints(at + 1)
        size = np.minimum(long_size, np.uint64(block.size + 1)).astype(np.int64)
        body = at + 1 + taken
    after = body + size
    if (((word & np.uint64(0xFF)) == STATS_TAG) & (after > end)).any():
        raise Malformed("the stats of an event are damaged")
    return body, after


def _put_values(
    block: WireBlock,
    rows: Positions,
    slot: NDArray[np.int8],
    of: _Stats,
    strings: Strings,
    columns: _StatColumns,
) -> None:
    value, _ = block.varints(of.value_at + 1)
    number = value.view(np.int64)
    names = list(columns.value)
    # The k-th stats of a batch are of few kinds, mostly one: each kind is stored at once.
    kind = slot.astype(np.int64) << 8 | of.tag
    for code in np.flatnonzero(np.bincount(kind)).tolist():
        name, tag = names[code >> 8], code & 0xFF
        matching = np.flatnonzero(kind == code)
        if tag in (_REF_VALUE, _INT_VALUE, _UINT_VALUE):
            columns.put(name, rows[matching], number[matching], tag == _REF_VALUE)
        elif tag in (_TEXT_VALUE, _BYTES_VALUE):
            for row in matching.tolist():
                text = text_at(block.bytes, int(of.value_at[row]) + 1, int(of.after[row]))
                key = np.array([strings.intern(text)], np.int64)
                columns.put(name, rows[row : row + 1], key, True)


def _decode_slowly(
    block: WireBlock,
    body: tuple[int, int],
    values: list[int],
    wanted: EventSelection,
    strings: Strings,
    columns: _StatColumns,
    row: int,
) -> None:
    data = block.bytes.data
    rows = np.array([row], np.int64)
    for number, wire, begin, finish in fields(data, *body):
        if wire == VARINT and number in (1, 2, 3):
            values[number - 1] = signed(varint(data, begin)[0])
            values[_TIMED] |= number == _OFFSET_FIELD
        elif number == _OCCURRENCES_FIELD and wire == VARINT:
            values[_TIMED] = 0
        elif number == 4 and wire == LENGTH:
            stat, kind, value = _one_stat(data, begin, finish)
            name = wanted.stats.get(stat)
            if name is None:
                continue
            if isinstance(value, str):
                columns.put(name, rows, np.array([strings.intern(value)], np.int64), True)
            elif isinstance(value, int):
                columns.put(name, rows, np.array([value], np.int64), kind == 7)


def _one_stat(data: memoryview, start: int, end: int) -> tuple[int, int, int | str | None]:
    stat, kind = 0, 0
    value: int | str | None = None
    for number, wire, begin, finish in fields(data, start, end):
        if number == 1 and wire == VARINT:
            stat = varint(data, begin)[0]
        elif number in _NUMBERS and wire == VARINT:
            kind, value = number, signed(varint(data, begin)[0])
        elif number in _TEXTS and wire == LENGTH:
            kind, value = number, bytes(data[begin:finish]).decode("utf-8", "replace")
        elif number == _DOUBLE and wire == FIXED64:
            kind, value = number, None
    return stat, kind, value
