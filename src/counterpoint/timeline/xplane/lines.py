"""Reads the events of one line of an XPlane, by the compiled decoder where there is one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from counterpoint.core.wire import Malformed, fields
from counterpoint.timeline.xplane import native
from counterpoint.timeline.xplane.events import (
    EVENTS_TAG,
    LARGEST_ID,
    Events,
    EventSelection,
    Stat,
    Strings,
    decode_in_python,
    slots,
)
from counterpoint.timeline.xplane.planes import PlaneLine
from counterpoint.timeline.xplane.wire import text_at

T = TypeVar("T")

_AHEAD: Final = 24 << 20
"""Bytes of lines that threads have begun with; always one line beyond that which is read."""

_LINE_NAME: Final = 2
_LINE_TIMESTAMP: Final = 3


def read_events(
    data: memoryview, start: int, end: int, wanted: EventSelection, strings: Strings
) -> Iterator[tuple[Events, int]]:
    """Yield batches of the events in data[start:end], with how many of each batch were skipped.

    The range is that of a line; fields that are not events are skipped.
    """
    return read_arranged(data, start, end, wanted, strings, _as_they_are)


def _as_they_are(events: Events) -> Events:
    return events


Compiled = Callable[[native.EventBatch], tuple[T, int] | None]
"""Arranges a batch without the columns of all its events, or gives None if it can't."""


def read_arranged(
    data: memoryview,
    start: int,
    end: int,
    wanted: EventSelection,
    strings: Strings,
    arrange: Callable[[Events], T],
    compiled: Compiled[T] | None = None,
) -> Iterator[tuple[T, int]]:
    """Do the same, and arrange each batch: where possible, in the thread that decodes it.

    Threads begin with the first batches at once, before the iterator is asked.
    """
    line = _Line(data, end, wanted, strings, arrange, compiled)
    begins = start < end and data[start] == EVENTS_TAG and native.is_available()
    return _arranged(line, start, line.begin(start) if begins else None)


def begun_ahead(
    lines: Iterable[PlaneLine], begin: Callable[[PlaneLine], T]
) -> Iterator[tuple[PlaneLine, T]]:
    """Yield lines with what `begin` returns of each; it is called for some lines ahead."""
    begun = deque[tuple[PlaneLine, T]]()
    ahead = 0
    for line in lines:
        begun.append((line, begin(line)))
        ahead += line.end - line.start
        while len(begun) > 1 and ahead > _AHEAD:
            ahead -= begun[0][0].end - begun[0][0].start
            yield begun.popleft()
    yield from begun


_Made = tuple[T | None, native.EventColumns | None, int]
"""What became of a batch, or else its columns; and how many events were skipped."""

_Batches = native.BatchReader[_Made[T]]


@dataclass(frozen=True, slots=True, eq=False)
class _Line(Generic[T]):
    """What the decoders need."""

    data: memoryview
    end: int
    wanted: EventSelection
    strings: Strings
    arrange: Callable[[Events], T]
    compiled: Compiled[T] | None

    def begin(self, start: int) -> _Batches[T]:
        """Let threads decode the events from here to the next other field."""
        names = self.wanted.columns

        def make(batch: native.EventBatch) -> _Made[T]:
            if self.compiled is not None and (made := self.compiled(batch)) is not None:
                return made[0], None, made[1]
            decoded = native.decode(batch)
            if decoded is None or decoded.has_texts:  # their ids depend on the order of batches
                return None, decoded, 0
            return self.arrange(_events(decoded, names)), None, decoded.left_out

        raw = np.frombuffer(self.data[start : self.end], np.uint8)
        return native.BatchReader(raw, slots(self.wanted), _kinds(self.wanted), len(names), make)

    def in_python(self, start: int, end: int) -> Iterator[tuple[T, int, int]]:
        """Decode a block of events in Python, each batch with the position after the block."""
        for events, skipped, stop in decode_in_python(
            self.data, start, end, self.wanted, self.strings
        ):
            yield self.arrange(events), skipped, stop


def _arranged(line: _Line[T], start: int, begun: _Batches[T] | None) -> Iterator[tuple[T, int]]:
    while start < line.end:
        if line.data[start] != EVENTS_TAG:
            start = _step_over(line.data, start, line.end)
            continue
        if native.is_available():
            batches, begun = begun or line.begin(start), None
            decoded = _decode_compiled(line, start, batches)
        else:
            decoded = line.in_python(start, line.end)
        for arranged, skipped, after in decoded:
            yield arranged, skipped
            start = after


def _decode_compiled(
    line: _Line[T], start: int, batches: _Batches[T]
) -> Iterator[tuple[T, int, int]]:
    """Yield all events up to the next other field, several batches at a time."""
    at = start
    for batch, (made, decoded, skipped) in batches:
        after = at + len(batch.data)
        if made is not None:
            yield made, skipped, after
        elif decoded is not None:
            _number_texts(batch.data, decoded, line.strings)
            yield line.arrange(_events(decoded, line.wanted.columns)), decoded.left_out, after
        else:
            # Not as C++ writes it: the other decoder is more patient, or knows the error.
            while at < after:
                for arranged, dropped, stop in line.in_python(at, after):
                    yield arranged, dropped, stop
                    at = stop
        at = after
    if at == start:
        yield from line.in_python(start, line.end)


def _kinds(wanted: EventSelection) -> NDArray[np.int32]:
    """Return what events of each metadata id are, for the decoder."""
    skipped = dict.fromkeys(wanted.skipped, native.LEFT_OUT)
    given = skipped | {mark: native.END + op for mark, op in wanted.ends.items()}
    known = {key: kind for key, kind in given.items() if 0 <= key < LARGEST_ID}
    table = np.full(max(known, default=0) + 1, native.KEPT, np.int32)
    table[[*known]] = [*known.values()]
    return table


def _number_texts(batch: NDArray[np.uint8], decoded: native.EventColumns, strings: Strings) -> None:
    """Put ids in place of the texts that events spell out."""
    for column, row in zip(*np.nonzero(decoded.kind == native.SPELLED), strict=True):
        text = text_at(batch, int(decoded.value[column, row]), len(batch))
        decoded.value[column, row] = strings.intern(text)


def _events(decoded: native.EventColumns, names: Sequence[str]) -> Events:
    named = decoded.kind.view(bool)  # of one byte each, as kinds are
    if decoded.has_texts:
        named = decoded.kind != 0
    stats = {
        name: Stat(decoded.value[slot], decoded.known[slot], named[slot])
        for slot, name in enumerate(names)
    }
    return Events(
        decoded.metadata, decoded.offset_ps, decoded.duration_ps, stats, decoded.summaries
    )


def _step_over(data: memoryview, start: int, end: int) -> int:
    """Return the end of a field that is not an event; raise if it is a head after its events."""
    number, _, _, after = next(fields(data, start, end))
    if number in (_LINE_NAME, _LINE_TIMESTAMP):
        raise Malformed(f"a line's header follows its events at offset {start}")
    return after
