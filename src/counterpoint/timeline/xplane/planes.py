"""The structure of an XSpace: its planes, their names of events and stats, and their lines.

XSpace {1 planes, 2 errors, 3 warnings, 4 hostnames}; XPlane {2 name, 3 lines, 4 event_metadata, 5
stat_metadata, 6 stats}

The events themselves stay in the file: `events` reads them by column. Names are decoded leniently,
because profilers write kernel names that are not UTF-8. Reference:
tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from counterpoint.core.wire import LENGTH, VARINT, Malformed, fields, varint
from counterpoint.hlo.wire_schema import Message, message_classes
from counterpoint.timeline.late_ends import END
from counterpoint.timeline.model import Device
from counterpoint.timeline.xplane.events import EVENTS_TAG, Events, EventSelection, Stat, Strings
from counterpoint.timeline.xplane.python_samples import SAMPLE, THREAD

LATEST_PS: Final = 1 << 61
"""Times beyond it are damage, and would not fit 64 bits when added."""

LARGE: Final = 32 << 20
"""Bytes of a capture of which it is worth the trouble to look at parts before it is read."""

DEVICE: Final = re.compile(r"/device:(GPU|TPU):(\d+)$")
HOST: Final = "/host:CPU"
MODULE_LINE: Final = "XLA Modules"
STEP_LINE: Final = "Steps"
STEP_STAT: Final = "step_num"
ROOT_STAT: Final = "_r"
"""Marks an event as a step, with its number or without: all that has a `step_num` has it, too."""
OP_STATS: Final = ("hlo_op", "hlo_module", "program_id", "run_id")
PRODUCER, CONSUMER = "_p", "_c"
"""Stats of an event that another one follows from, and of that one: they have the same value."""

USED_STAT: Final = "bytes_allocated"
MEMORY_STATS: Final = frozenset(
    (
        USED_STAT,
        "bytes_available",
        "bytes_reserved",
        "peak_bytes_in_use",
        "allocator_name",
        "index_on_host",
    )
)
"""Stats of the events of allocators (memory.py)."""

_BOOKKEEPING: Final = "ThreadpoolListener::"
"""Marks of thread pools, without a length."""

_MOST_OPS: Final = 1 << 30
"""Metadata ids of ops are below this: the decoder's table has 32 bits."""

_NVIDIA, _AMD = "Nvidia", "AMD"
_OF_NVIDIA_ALONE: Final = ((6, 0), (6, 1), (7, 0), (7, 5), (8, 0), (8, 6), (8, 9))
"""AMD's GPUs have 9 and above: 9.4 is gfx942."""

StatValue = int | float | str | bytes

_MESSAGES = message_classes(
    "counterpoint.xplane",
    """
    Names
      2 name bytes
      3 lines bytes*
      4 event_metadata EventEntry*
      5 stat_metadata StatEntry*
      6 stats Stat*
    EventEntry
      1 key int64
      2 value EventMetadata
    EventMetadata
      2 name bytes
      4 display_name bytes
      5 stats Stat*
    StatEntry
      1 key int64
      2 value StatMetadata
    StatMetadata
      2 name bytes
    Stat
      1 metadata_id int64
      2 double_value double
      3 uint64_value uint64
      4 int64_value int64
      5 str_value bytes
      6 bytes_value bytes
      7 ref_value uint64
    """,
)


def as_text(value: StatValue | None) -> str | None:
    """Return a value as text, if it has any."""
    if value is None or value == "":
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def as_number(value: object, unit: float = 1.0) -> float | None:
    """Return a value as a number, if it is a finite one above zero."""
    number = unit * value if isinstance(value, int | float) else 0.0
    return number if 0 < number < math.inf else None


@dataclass(frozen=True, slots=True)
class PlaneLine:
    """One line of a plane; its events lie between `start` and `end` in the file."""

    id: int
    name: str
    timestamp_ns: int
    start: int
    end: int


def starts(line: PlaneLine, events: Events, zero_ns: int) -> NDArray[np.int64]:
    """Return when events of a line start, in picoseconds since time 0."""
    if len(events):
        low = min(events.offset_ps.min(), events.duration_ps.min())
        high = max(events.offset_ps.max(), events.duration_ps.max())
        if low < -LATEST_PS or high > LATEST_PS or events.duration_ps.min() < 0:
            raise Malformed(f"an event of line {line.name!r} has an impossible time")
    return events.offset_ps + base_ps(line, zero_ns)


def base_ps(line: PlaneLine, zero_ns: int) -> int:
    """Return when a line starts, in picoseconds since time 0."""
    base = (line.timestamp_ns - zero_ns) * 1000
    if abs(base) > LATEST_PS:
        raise Malformed(f"line {line.name!r} has an impossible start")
    return base


@dataclass(frozen=True, slots=True)
class EventName:
    """Properties that all events of one kind share."""

    name: str
    display: str
    stats: Mapping[str, StatValue]


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """One plane without its events."""

    name: str
    stats: Mapping[str, StatValue]
    event_names: Mapping[int, EventName]
    strings: Strings
    stat_ids: Mapping[str, int]
    lines: tuple[PlaneLine, ...]

    def event_name(self, metadata: int) -> EventName:
        """Return the properties of events with this id, also if the file does not name it."""
        known = self.event_names.get(metadata)
        return known or EventName(name=f"event {metadata}", display="", stats={})

    @property
    def marker_stat(self) -> str:
        """The stat that tells markers of steps: their number, unless no marker has one."""
        return STEP_STAT if STEP_STAT in self.stat_ids else ROOT_STAT

    def selection(self, stats: Sequence[str]) -> EventSelection:
        """Return what to read of the plane's events: these stats, without book-keeping marks."""
        ids = {event.name: key for key, event in self.event_names.items()}
        ends = {
            key: ids[name.removeprefix(END)]
            for name, key in ids.items()
            if name.startswith(END) and 0 <= ids.get(name.removeprefix(END), -1) < _MOST_OPS
        }
        return EventSelection(
            stats={self.stat_ids[name]: name for name in stats if name in self.stat_ids},
            skipped=frozenset(
                key
                for key, event in self.event_names.items()
                if event.name.startswith((_BOOKKEEPING, END, SAMPLE, THREAD)) and key not in ends
            ),
            ends=ends,
        )

    def selection_of(self, kinds: Container[int], stats: Sequence[str]) -> EventSelection | None:
        """Return what to read of events of these kinds alone; None if none has these stats."""
        ids = {self.stat_ids[name]: name for name in stats if name in self.stat_ids}
        others = frozenset(key for key in self.event_names if key not in kinds)
        if not ids or len(others) == len(self.event_names):
            return None
        return EventSelection(stats=ids, skipped=others)

    def values(self, stat: Stat) -> list[StatValue | None]:
        """Return the values of a stat."""
        columns = (stat.known, stat.is_text, stat.value)
        return [
            (self.strings.get(value) if is_text else value) if known else None
            for known, is_text, value in zip(*(c.tolist() for c in columns), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class SpaceTexts:
    """Messages and host names in a file."""

    errors: Sequence[str]
    warnings: Sequence[str]
    hostnames: Sequence[str]


_PLANES: Final = 1
_ERRORS: Final = 2
_WARNINGS: Final = 3
_HOSTNAMES: Final = 4
_PLANE_NAME: Final = 2
_PLANE_LINES: Final = 3
_NAMES: Final = (4, 5, 6)
_LINE_ID: Final = 1
_LINE_NAME: Final = 2
_LINE_TIMESTAMP: Final = 3
_LINE_DISPLAY_NAME: Final = 11


def read_planes(data: memoryview) -> Iterator[Plane]:
    """Yield every plane of the file; raise Malformed if the bytes are not an XSpace."""
    for number, wire, start, end in fields(data, 0, len(data)):
        if number == _PLANES and wire == LENGTH:
            yield _read_plane(data, start, end)


def read_texts(data: memoryview) -> SpaceTexts:
    """Read the messages and host names of the file."""
    texts: dict[int, list[str]] = {_ERRORS: [], _WARNINGS: [], _HOSTNAMES: []}
    for number, wire, start, end in fields(data, 0, len(data)):
        if number in texts and wire == LENGTH:
            texts[number].append(_text(bytes(data[start:end])))
    return SpaceTexts(texts[_ERRORS], texts[_WARNINGS], texts[_HOSTNAMES])


def _read_plane(data: memoryview, start: int, end: int) -> Plane:
    name = ""
    lines: list[PlaneLine] = []
    decoded = None
    for number, wire, begin, finish, field in _with_starts(data, start, end):
        if number == _PLANE_NAME and wire == LENGTH:
            name = _text(bytes(data[begin:finish]))
        elif number == _PLANE_LINES and wire == LENGTH:
            lines.append(_read_line(data, begin, finish))
        elif number in _NAMES and wire == LENGTH:
            # The profiler writes the names behind all lines: the rest is decoded in one go.
            decoded = _decode_names(data[field:end])
            if decoded is not None:
                break
    if decoded is None:
        name, lines, decoded = _read_scattered(data, start, end)
    strings = {entry.key: _text(entry.value.name) for entry in decoded.stat_metadata}
    return Plane(
        name=name,
        stats=_stats(decoded.stats, strings),
        event_names=_EventNames(decoded.event_metadata, strings),
        strings=Strings(strings),
        stat_ids={text: key for key, text in strings.items()},
        lines=tuple(lines),
    )


def _with_starts(
    data: memoryview, start: int, end: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the fields, each with the position of its tag."""
    field = start
    for number, wire, begin, finish in fields(data, start, end):
        yield number, wire, begin, finish, field
        field = finish


def _decode_names(raw: memoryview) -> Message | None:
    """Decode the names of a plane; None if there is something else among them, or damage."""
    try:
        decoded = _MESSAGES["Names"].FromString(raw)
    except DecodeError:
        return None
    return None if decoded.name or decoded.lines else decoded


def _read_scattered(data: memoryview, start: int, end: int) -> tuple[str, list[PlaneLine], Message]:
    """Read the name, the lines and the names of a plane, which are in any order."""
    name = ""
    lines: list[PlaneLine] = []
    names: list[tuple[int, int]] = []
    before = start
    for number, wire, begin, finish in fields(data, start, end):
        if number == _PLANE_NAME and wire == LENGTH:
            name = _text(bytes(data[begin:finish]))
        elif number == _PLANE_LINES and wire == LENGTH:
            lines.append(_read_line(data, begin, finish))
        elif number in _NAMES and wire == LENGTH:
            _extend(names, before, finish)
        before = finish
    try:
        joined = b"".join(data[first:last] for first, last in names)
        return name, lines, _MESSAGES["Names"].FromString(joined)
    except DecodeError:
        raise Malformed(f"the names of plane {name!r} are damaged") from None


class _EventNames(Mapping[int, EventName]):
    """The kinds of events of a plane; most are asked for their names only, or not at all."""

    def __init__(self, entries: Iterable[Message], strings: Mapping[int, str]) -> None:
        self._entries = {entry.key: entry.value for entry in entries}
        self._strings = strings
        self._made: dict[int, EventName] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def __getitem__(self, key: int) -> EventName:
        known = self._made.get(key)
        if known is None:
            value = self._entries[key]
            known = self._made[key] = EventName(
                _text(value.name), _text(value.display_name), _stats(value.stats, self._strings)
            )
        return known


def _extend(ranges: list[tuple[int, int]], start: int, end: int) -> None:
    if ranges and ranges[-1][1] == start:
        ranges[-1] = (ranges[-1][0], end)
    else:
        ranges.append((start, end))


def _read_line(data: memoryview, start: int, end: int) -> PlaneLine:
    """Read a line's head; its events are not read."""
    place_of: dict[tuple[int, int], tuple[int, int]] = {}
    at = start
    while at < end and data[at] != EVENTS_TAG:
        number, wire, begin, at = next(fields(data, at, end))
        place_of[number, wire] = (begin, at)
    if (_LINE_NAME, LENGTH) not in place_of:
        # A line without a name may have a display name, which is written after the events.
        place_of |= {
            (n, w): (b, e) for n, w, b, e in fields(data, at, end) if n == _LINE_DISPLAY_NAME
        }
    name = place_of.get((_LINE_NAME, LENGTH)) or place_of.get((_LINE_DISPLAY_NAME, LENGTH))
    stamp = place_of.get((_LINE_TIMESTAMP, VARINT))
    number = place_of.get((_LINE_ID, VARINT))
    return PlaneLine(
        id=varint(data, number[0])[0] if number else 0,
        name=_text(bytes(data[name[0] : name[1]])) if name else "",
        timestamp_ns=varint(data, stamp[0])[0] if stamp else 0,
        start=at,
        end=end,
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _stats(stats: Iterable[Message], strings: Mapping[int, str]) -> dict[str, StatValue]:
    values: dict[str, StatValue] = {}
    for stat in stats:
        name = strings.get(stat.metadata_id)
        if name is not None:
            values[name] = _value(stat, strings)
    return values


def _value(stat: Message, strings: Mapping[int, str]) -> StatValue:
    """Return the value that is set; a zero of any type if none differs from its default."""
    if stat.ref_value:
        return strings.get(stat.ref_value, "")
    if stat.str_value:
        return _text(stat.str_value)
    return stat.bytes_value or stat.double_value or stat.int64_value or stat.uint64_value or 0


def describe_device(plane: Plane, kind: str, ordinal: int) -> Device:
    """Describe the chip of a plane; MFU needs the peaks, which only TPU planes carry.

    For AMD's GPUs the profiler writes half the rate of the memory: it counts one transfer a cycle.
    """
    stats = plane.stats
    rate = None if stats.get("device_vendor") == _AMD else as_number(stats.get("memory_bandwidth"))
    gigabytes = as_number(stats.get("peak_hbm_bw_gigabytes_per_second"), 1e9)
    return Device(
        ordinal=ordinal,
        kind=kind,
        chip=_chip(plane),
        peak_flops=as_number(stats.get("peak_teraflops_per_second"), 1e12),
        peak_bytes=gigabytes or rate,
    )


def _chip(plane: Plane) -> str | None:
    named = plane.stats.get("device_type_string") or plane.stats.get("gpu_device_name")
    if isinstance(named, str) and named:
        return named
    # A minor number of 0 may be left out.
    capability = [plane.stats.get("compute_cap_major"), plane.stats.get("compute_cap_minor", 0)]
    vendor = plane.stats.get("device_vendor") or _vendor(capability)
    if not isinstance(vendor, str) or not vendor:
        return None
    cores, memory = plane.stats.get("core_count"), plane.stats.get("memory_size")
    clock = plane.stats.get("clock_rate")
    # Older files don't name the chip: these properties are enough for `find_chip`.
    properties = [vendor]
    if None not in capability:
        properties.append(f"compute {capability[0]}.{capability[1]}")
    if isinstance(cores, int) and cores:
        properties.append(f"{cores} cores")
    if isinstance(memory, int) and memory:
        properties.append(f"{memory / 2**30:.0f} GiB")
    if isinstance(clock, int) and clock:
        properties.append(f"{clock / 1000:.0f} MHz")
    return ", ".join(properties)


def _vendor(capability: Sequence[StatValue | None]) -> str | None:
    """Return the vendor whose GPUs alone have a compute capability; older files don't name it."""
    numbers = [number if isinstance(number, int) else 0 for number in capability]
    return _NVIDIA if (*numbers,) in _OF_NVIDIA_ALONE else None
