"""Perfetto's own format: packets of track descriptors and of slice begins and ends.

Reference: https://perfetto.dev/docs/reference/synthetic-track-event. Descriptors and names go
through protobuf; a slice's packet, of which there are millions, is assembled from parts that were
encoded once. Times are nanoseconds, rounded down, which preserves nesting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from counterpoint.core.wire import written_varint
from counterpoint.hlo.wire_schema import message_classes
from counterpoint.timeline.storage.trace_layout import NO_STEP, Argument, Label, TraceProcess, Track

_PS_PER_NS: Final = 1_000
_AT_A_TIME: Final = 1 << 15

_TIME_BYTES: Final = 9  # 63 bits

_SEQUENCE: Final = 1
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_BEGIN, _END = 1, 2

# Tags of the fields that are encoded by hand: number << 3 | wire type.
_PACKET: Final = b"\x0a"  # Trace.packet
_TIMESTAMP: Final = b"\x40"  # TracePacket.timestamp
_TRACK_EVENT: Final = b"\x5a"  # TracePacket.track_event
_ANNOTATIONS: Final = b"\x22"  # TrackEvent.debug_annotations

_MESSAGES = message_classes(
    "counterpoint.perfetto",
    """
    Trace
      1 packet TracePacket*
    TracePacket
      8 timestamp uint64
      10 trusted_packet_sequence_id uint32
      11 track_event TrackEvent
      12 interned_data InternedData
      13 sequence_flags uint32
      60 track_descriptor TrackDescriptor
    TrackDescriptor
      1 uuid uint64
      2 name string
      3 process ProcessDescriptor
      4 thread ThreadDescriptor
      5 parent_uuid uint64
    ProcessDescriptor
      1 pid int32
      6 process_name string
    ThreadDescriptor
      1 pid int32
      2 tid int32
      5 thread_name string
    TrackEvent
      3 category_iids uint64
      4 debug_annotations DebugAnnotation*
      9 type int32
      10 name_iid uint64
      11 track_uuid uint64
    DebugAnnotation
      1 name_iid uint64
      4 int_value int64
      5 double_value double
      17 string_value_iid uint64
    InternedData
      1 event_categories Name*
      2 event_names Name*
      3 debug_annotation_names Name*
      29 debug_annotation_string_values Name*
    Name
      1 iid uint64
      2 name string
    """,
)


_FLAGS: Final = _MESSAGES["TracePacket"](
    trusted_packet_sequence_id=_SEQUENCE, sequence_flags=_NEEDS_STATE
).SerializeToString()


class _Names:
    """Numbered texts; `fresh` holds those not written yet."""

    def __init__(self) -> None:
        self._iids: dict[str, int] = {}
        self.fresh: list[Any] = []

    def iid(self, text: str) -> int:
        known = self._iids.get(text)
        if known is None:
            known = self._iids[text] = len(self._iids) + 1
            self.fresh.append(_MESSAGES["Name"](iid=known, name=text))
        return known


class _Interned:
    """All strings that slices refer to by number."""

    def __init__(self) -> None:
        self.categories, self.names = _Names(), _Names()
        self.keys, self.texts = _Names(), _Names()

    def annotation(self, key: str, value: Argument) -> bytes:
        """Return an encoded debug annotation, as a field of a track event."""
        message = _MESSAGES["DebugAnnotation"](name_iid=self.keys.iid(key))
        if isinstance(value, str):
            message.string_value_iid = self.texts.iid(value)
        elif isinstance(value, int):
            message.int_value = value
        else:
            message.double_value = value
        encoded = message.SerializeToString()
        return _ANNOTATIONS + _varint(len(encoded)) + encoded

    def begin(self, label: Label, track: int) -> bytes:
        """Return an encoded track event without its step."""
        event = _MESSAGES["TrackEvent"](
            type=_BEGIN,
            track_uuid=track,
            category_iids=self.categories.iid(label.category),
            name_iid=self.names.iid(label.name),
        )
        annotations = (self.annotation(key, value) for key, value in label.arguments)
        return event.SerializeToString() + b"".join(annotations)

    def packet(self) -> bytes:
        """Return a packet with the names added since the last one."""
        data = _MESSAGES["InternedData"](
            event_categories=self.categories.fresh,
            event_names=self.names.fresh,
            debug_annotation_names=self.keys.fresh,
            debug_annotation_string_values=self.texts.fresh,
        )
        for names in (self.categories, self.names, self.keys, self.texts):
            names.fresh.clear()
        return _packet(interned_data=data, sequence_flags=_NEEDS_STATE)


def proto_blocks(
    processes: Iterable[TraceProcess], tracks: Iterable[Track], zero_ps: int
) -> Iterator[bytes]:
    """Yield the packets of the trace in blocks."""
    interned = _Interned()
    yield _packet(sequence_flags=_STATE_CLEARED)
    for process in processes:
        named = {"pid": process.pid, "process_name": process.name}
        yield _packet(track_descriptor={"uuid": process.pid, "process": named})
    for track in tracks:
        thread = {"pid": track.pid, "tid": track.tid, "thread_name": track.name}
        yield _packet(
            track_descriptor={"uuid": _uuid(track), "parent_uuid": track.pid, "thread": thread}
        )
        yield from _slices(track, zero_ps, interned)


def _slices(track: Track, zero_ps: int, interned: _Interned) -> Iterator[bytes]:
    used: list[int] = np.unique(track.label).tolist()
    begins = {label: interned.begin(track.labels[label], _uuid(track)) for label in used}
    numbered: list[int] = [] if track.step is None else np.unique(track.step).tolist()
    of_step = {step: interned.annotation("step", step) for step in numbered if step != NO_STEP}
    of_step[NO_STEP] = b""
    yield interned.packet()
    before_end, after_end = _frame(
        _MESSAGES["TrackEvent"](type=_END, track_uuid=_uuid(track)).SerializeToString()
    )
    labels: list[int] = track.label.tolist()
    steps = [NO_STEP] * len(labels) if track.step is None else track.step.tolist()
    starts = (track.start_ps - zero_ps) // _PS_PER_NS
    ends = (track.end_ps - zero_ps) // _PS_PER_NS
    at_start, at_end = _times(starts), _times(ends)
    open_slices: list[tuple[int, int]] = []
    parts: list[bytes] = []
    for row, (start, stop) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        while open_slices and open_slices[-1][0] <= start:
            _, closed = open_slices.pop()
            parts += (before_end, at_end[closed], after_end)
        before, after = _frame(begins[labels[row]] + of_step[steps[row]])
        parts += (before, at_start[row], after)
        open_slices.append((stop, row))
        if len(parts) > _AT_A_TIME:
            yield b"".join(parts)
            parts.clear()
    for _, closed in reversed(open_slices):
        parts += (before_end, at_end[closed], after_end)
    yield b"".join(parts)


def _uuid(track: Track) -> int:
    return track.pid << 32 | track.tid


def _frame(event: bytes) -> tuple[bytes, bytes]:
    """Return the parts of a track event's packet before and after its time."""
    content = _FLAGS + _TRACK_EVENT + _varint(len(event)) + event
    return _PACKET + _varint(1 + _TIME_BYTES + len(content)) + _TIMESTAMP, content


def _times(time_ns: NDArray[np.int64]) -> list[bytes]:
    """Encode each time as a varint of fixed length, so that a label's packets have one length."""
    shifts = np.arange(0, 7 * _TIME_BYTES, 7)
    groups = (time_ns[:, None] >> shifts & 0x7F | 0x80).astype(np.uint8)
    groups[:, -1] &= 0x7F
    return groups.view(f"V{_TIME_BYTES}").ravel().tolist()


def _packet(**fields: object) -> bytes:
    packet = {"trusted_packet_sequence_id": _SEQUENCE, **fields}
    return _MESSAGES["Trace"](packet=[packet]).SerializeToString()


def _varint(value: int) -> bytes:
    return _SHORT[value] if value < 0x80 else written_varint(value)


_SHORT: Final = [bytes([value]) for value in range(0x80)]
