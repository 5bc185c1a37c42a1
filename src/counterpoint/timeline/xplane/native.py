"""Decodes events by the compiled decoder, where the installation has one (native/ in the sources).

Without it the columns are the same, and reading takes about five times as long. The library is
called through ctypes, which releases the interpreter's lock, so batches are decoded in parallel.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from counterpoint.core.threads import cores

Longs = NDArray[np.int64]
Codes = NDArray[np.uint32]
Bytes = NDArray[np.uint8]

T = TypeVar("T")

LIBRARY: Final = Path(__file__).with_name("_events.so")
SWITCH: Final = "COUNTERPOINT_NATIVE"
"""Environment variable; `off` decodes in Python."""

_LAYOUT: Final = 4
_ROOM: Final = 4 << 20
_SMALL: Final = 128 << 10
_MOST_THREADS: Final = 4
KEPT, LEFT_OUT, END = 0, 1, 2
"""What events of a metadata id are; of an END, the id of its op is added."""

NAMED, SPELLED = 1, 2
"""Kinds of values besides numbers: the id of a text, and the position of a text in the batch."""

_SIZE, _POINTER = ctypes.c_size_t, ctypes.c_void_p


def _fields(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class _DecodeInput(ctypes.Structure):
    _fields_ = (
        ("data", _POINTER), ("size", _SIZE),
        ("slots", _POINTER), ("slot_count", _SIZE),
        ("kinds", _POINTER), ("kind_count", _SIZE),
        ("capacity", _SIZE), ("columns", _SIZE),
    )  # fmt: skip


class _ColumnOutput(ctypes.Structure):
    _fields_ = _fields(_POINTER, "metadata offset duration value known kind")


class _DecodeOutcome(ctypes.Structure):
    _fields_ = _fields(_SIZE, "consumed rows left_out summaries spelled")


class _Arrangement(ctypes.Structure):
    _fields_ = [
        *_fields(ctypes.c_int64, "base latest"),
        *_fields(ctypes.c_int32, "all_work op module program run graph device step"),
        *_fields(ctypes.c_int32, "producer consumer memory"),
    ]


_LONG_COLUMNS: Final = (
    *("work_start", "work_duration", "work_run", "kind_metadata", "device", "other_start"),
    *("open_row", "open_id", "end_time", "end_id"),
    *("other_duration", "name_metadata", "marker_metadata", "marker_start", "marker_duration"),
    "marker_step",
)
_CODE_COLUMNS: Final = ("work_kind", "work_device", "other_name")
_COUNTS: Final = {
    "work": "work",
    "open": "opens",
    "end": "ends",
    "kind": "kinds",
    "device": "devices",
    "other": "others",
    "name": "names",
    "marker": "markers",
}
"""Of each column, by the first word of its name, which count its rows have."""


class _ArrangedOutput(ctypes.Structure):
    _fields_ = _fields(
        _POINTER,
        "work_start work_duration work_run work_has_run work_kind work_device"
        " open_row open_id end_time end_id kind_metadata"
        " kind_value kind_known kind_type device other_start other_duration other_name"
        " name_metadata marker_metadata marker_start marker_duration marker_step",
    )


class _ArrangeOutcome(ctypes.Structure):
    _fields_ = _fields(_SIZE, "work opens ends kinds devices others names markers")


class _Filled(ctypes.Structure):
    _fields_ = [
        *_fields(_POINTER, "target source code"),
        *_fields(_SIZE, "values width"),
    ]


@cache
def _library() -> ctypes.CDLL | None:
    if os.environ.get(SWITCH) == "off" or not LIBRARY.exists():
        return None
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError:  # of another platform, or of another libc
        return None
    library.layout.restype = ctypes.c_uint32
    if library.layout() != _LAYOUT:
        return None
    library.measure_events.argtypes = (_POINTER, _SIZE, _SIZE, ctypes.POINTER(_SIZE))
    library.measure_events.restype = _SIZE
    library.decode_events.restype = ctypes.c_uint32
    library.arrange_events.restype = ctypes.c_uint32
    library.fill_columns.argtypes = (_POINTER, _SIZE, _SIZE)
    library.fill_columns.restype = ctypes.c_uint32
    return library


def is_available() -> bool:
    """Return whether the compiled decoder can be used."""
    return _library() is not None


@dataclass(frozen=True, slots=True, eq=False)
class EventBatch:
    """The bytes of whole events and their number, the columns of their stats, and what to skip."""

    data: Bytes
    count: int
    slots: NDArray[np.int8]
    kinds: NDArray[np.int32]
    columns: int

    def as_input(self) -> ctypes.Structure:
        """Return what the library is given."""
        return _DecodeInput(
            self.data.ctypes.data, len(self.data), self.slots.ctypes.data, len(self.slots),
            self.kinds.ctypes.data, len(self.kinds), self.count, self.columns,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class EventColumns:
    """Columns of a batch's events that have a time; `value`, `known` and `kind` by stat column."""

    metadata: Longs
    offset_ps: Longs
    duration_ps: Longs
    value: Longs
    known: NDArray[np.bool_]
    kind: Bytes
    left_out: int
    summaries: int
    has_texts: bool


@dataclass(frozen=True, slots=True, eq=False)
class ArrangedColumns:
    """A batch's events by what they are: columns by name.

    `kind_value`, `kind_known` and `kind_is_text` have a row for each kind of work, and in it the
    stats of its first event.
    """

    longs: Mapping[str, Longs]
    codes: Mapping[str, Codes]
    has_run: NDArray[np.bool_]
    kind_value: Longs
    kind_known: NDArray[np.bool_]
    kind_is_text: NDArray[np.bool_]
    left_out: int
    summaries: int


@dataclass(frozen=True, slots=True)
class Roles:
    """Which columns of stats tell what an event is; -1: none. `all_work`: nothing is told apart."""

    all_work: bool
    op: int
    module: int
    program: int
    run: int
    graph: int
    device: int
    step: int
    producer: int
    consumer: int
    memory: int


class BatchReader(Iterator[tuple[EventBatch, T]]):
    """Yields batches of events from the first byte on, and what `make` makes of each in a thread.

    The threads begin at once, and are a few batches ahead. The batches end at a field that is no
    event, or at an event that is cut off. `slots` gives the column of each stat id, `kinds` what
    events of each metadata id are: KEPT, LEFT_OUT, or END and the id of the op whose end they mark.
    """

    def __init__(
        self,
        data: Bytes,
        slots: NDArray[np.int8],
        kinds: NDArray[np.int32],
        columns: int,
        make: Callable[[EventBatch], T],
    ) -> None:
        self._data = data
        self._given = (slots, kinds, columns)
        self._make = make
        self._lock = Lock()
        self._pending = deque[Future[tuple[EventBatch, T] | None]]()
        self._next: int | None = 0  # where the batch starts that no thread has been given
        self._is_small = len(data) < _SMALL
        if not self._is_small:
            self._go_on()

    def __next__(self) -> tuple[EventBatch, T]:
        if self._is_small:  # a thread would take longer to wake than this takes
            at, self._next = self._next, None
            batch = None if at is None else self._read(at)
        else:
            self._go_on()
            batch = self._pending.popleft().result() if self._pending else None
        if batch is None:
            raise StopIteration
        return batch

    def _go_on(self) -> None:
        with self._lock:
            if self._next is not None and len(self._pending) < 2 * _threads():
                self._pending.append(_pool().submit(self._read, self._next))
                self._next = None

    def _read(self, at: int) -> tuple[EventBatch, T] | None:
        """Read a batch; let another thread read the next one, which begins where this ends."""
        size, count = _measure(self._data[at:])
        if not size:
            return None
        batch = EventBatch(self._data[at : at + size], count, *self._given)
        if at + size < len(self._data):
            self._next = at + size
            if not self._is_small:
                self._go_on()
        return batch, self._make(batch)


def _threads() -> int:
    return min(_MOST_THREADS, cores())


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads(), "counterpoint-decode")


def _measure(data: Bytes) -> tuple[int, int]:
    """Return the size of the next batch of whole events, and their number."""
    library, count = _library(), _SIZE()
    if library is None:
        return 0, 0
    size: int = library.measure_events(data.ctypes.data, len(data), _ROOM, ctypes.byref(count))
    return size, count.value


def decode(batch: EventBatch) -> EventColumns | None:
    """Decode a batch into columns; None if its bytes are not as expected."""
    library = _library()
    if library is None:
        return None
    rows = batch.count
    metadata, offset, duration = (np.empty(rows, np.int64) for _ in range(3))
    value = np.zeros((batch.columns, rows), np.int64)
    known, kind = (np.zeros((batch.columns, rows), np.uint8) for _ in range(2))
    outcome = _DecodeOutcome()
    output = _ColumnOutput(
        *(column.ctypes.data for column in (metadata, offset, duration, value, known, kind))
    )
    failed = library.decode_events(
        ctypes.byref(batch.as_input()), ctypes.byref(output), ctypes.byref(outcome)
    )
    if failed or outcome.consumed != len(batch.data):
        return None
    filled = slice(outcome.rows)
    return EventColumns(
        metadata[filled], offset[filled], duration[filled], value[:, filled],
        known[:, filled].view(bool), kind[:, filled], outcome.left_out, outcome.summaries,
        outcome.spelled > 0,
    )  # fmt: skip


def arrange(
    batch: EventBatch, roles: Roles, base_ps: int, latest_ps: int
) -> ArrangedColumns | None:
    """Decode a batch and tell its events apart; None if bytes or times are not as expected.

    Nothing is arranged either if events spell out texts, or tell of memory.
    """
    library = _library()
    if library is None:
        return None
    rows, cells = batch.count, batch.count * batch.columns
    longs = {name: np.empty(rows, np.int64) for name in _LONG_COLUMNS}
    codes = {name: np.empty(rows, np.uint32) for name in _CODE_COLUMNS}
    kind_value = np.empty(cells, np.int64)
    flags = {
        "work_has_run": np.empty(rows, np.uint8),
        "kind_known": np.empty(cells, np.uint8),
        "kind_type": np.empty(cells, np.uint8),
    }
    how = _Arrangement(
        base_ps, latest_ps, roles.all_work, roles.op, roles.module, roles.program, roles.run,
        roles.graph, roles.device, roles.step, roles.producer, roles.consumer, roles.memory,
    )  # fmt: skip
    columns = longs | codes | flags | {"kind_value": kind_value}
    output = _ArrangedOutput(**{name: column.ctypes.data for name, column in columns.items()})
    outcome, counts = _DecodeOutcome(), _ArrangeOutcome()
    failed = library.arrange_events(
        *map(ctypes.byref, (batch.as_input(), how, output, outcome, counts))
    )
    if failed or outcome.consumed != len(batch.data):
        return None

    def rows_of(name: str) -> slice:
        return slice(getattr(counts, _COUNTS[name.partition("_")[0]]))

    kinds = (counts.kinds, batch.columns)
    used = kinds[0] * kinds[1]
    return ArrangedColumns(
        longs={name: column[rows_of(name)] for name, column in longs.items()},
        codes={name: column[rows_of(name)] for name, column in codes.items()},
        has_run=flags["work_has_run"][: counts.work].view(bool),
        kind_value=kind_value[:used].reshape(kinds),
        kind_known=flags["kind_known"][:used].reshape(kinds).view(bool),
        # Kinds are of one byte each, 0 or 1 without texts.
        kind_is_text=flags["kind_type"][:used].reshape(kinds).view(bool),
        left_out=outcome.left_out,
        summaries=outcome.summaries,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Filling:
    """A column to fill: with rows, with values by code, or with one value."""

    target: NDArray[Any]
    source: NDArray[Any]
    code: NDArray[Any] | None = None


def fill(columns: Sequence[Filling]) -> None:
    """Fill columns of the same length."""
    library, rows = _library(), len(columns[0].target)
    if library is None or not rows or not all(map(_can_be_filled, columns)):
        _fill_by_numpy(columns)
        return
    filled = (_Filled * len(columns))(
        *(
            (
                column.target.ctypes.data,
                column.source.ctypes.data,
                None if column.code is None else column.code.ctypes.data,
                len(column.source),
                column.target.itemsize,
            )
            for column in columns
        )
    )
    if library.fill_columns(filled, len(columns), rows):
        _fill_by_numpy(columns)


def _can_be_filled(column: Filling) -> bool:
    target, source, code = column.target, column.source, column.code
    arrays = [target, source] if code is None else [target, source, code]
    return (
        all(array.flags.c_contiguous for array in arrays)
        and target.dtype == source.dtype
        and (len(source) in {1, len(target)} if code is None else len(source) > 0)
        and (code is None or (code.dtype == np.uint32 and len(code) == len(target)))
    )


def _fill_by_numpy(columns: Sequence[Filling]) -> None:
    for column in columns:
        if column.code is not None:
            np.take(column.source, column.code, out=column.target, mode="clip")
        else:
            column.target[:] = column.source
