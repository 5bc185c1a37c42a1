"""Decodes events by the compiled decoder, where the installation has one (native/ in the sources).

Without it the columns are the same, and reading takes about five times as long. The library is
called through ctypes, which releases the interpreter's lock, so batches are decoded in parallel.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoint.core.frozen import frozen

Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]

LIBRARY: Final = Path(__file__).with_name("_events.so")
SWITCH: Final = "COUNTERPOINT_NATIVE"
"""Environment variable; `off` decodes in Python."""

_LAYOUT: Final = 2
_ROOM: Final = 4 << 20
_THREADS: Final = min(4, os.cpu_count() or 1)
_AHEAD: Final = 2 * _THREADS
NAMED, SPELLED = 1, 2
"""Kinds of values besides numbers: the id of a text, and the position of a text in the batch."""


class _DecodeRequest(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("slots", ctypes.c_void_p),
        ("slot_count", ctypes.c_size_t),
        ("left_out", ctypes.c_void_p),
        ("left_out_count", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
        ("columns", ctypes.c_size_t),
        ("metadata", ctypes.c_void_p),
        ("offset", ctypes.c_void_p),
        ("duration", ctypes.c_void_p),
        ("value", ctypes.c_void_p),
        ("known", ctypes.c_void_p),
        ("kind", ctypes.c_void_p),
    )


class _DecodeOutcome(ctypes.Structure):
    _fields_ = (
        ("consumed", ctypes.c_size_t),
        ("rows", ctypes.c_size_t),
        ("left_out", ctypes.c_size_t),
        ("summaries", ctypes.c_size_t),
        ("spelled", ctypes.c_size_t),
    )


@cache
def _library() -> ctypes.CDLL | None:
    if os.environ.get(SWITCH) == "off" or not LIBRARY.exists():
        return None
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError:  # of another platform, or of another libc
        return None
    library.decode_events.argtypes = (
        ctypes.POINTER(_DecodeRequest),
        ctypes.POINTER(_DecodeOutcome),
    )
    library.decode_events.restype = ctypes.c_uint32
    library.measure_events.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_size_t),
    )
    library.measure_events.restype = ctypes.c_size_t
    library.layout.restype = ctypes.c_uint32
    return library if library.layout() == _LAYOUT else None


def is_available() -> bool:
    """Return whether the compiled decoder can be used."""
    return _library() is not None


@frozen(eq=False)
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


def decode_all(
    data: Bytes, slots: NDArray[np.int8], left_out: Bytes, columns: int
) -> Iterator[tuple[Bytes, EventColumns | None]]:
    """Yield the events from the first byte on in batches of bytes, each with its columns.

    The columns are None if the bytes are not as expected. The batches end at a field that is no
    event, or at an event that is cut off. `slots` gives the column of each stat id; `left_out` is 1
    for metadata ids to leave out.
    """
    pending = deque[tuple[Bytes, Future[EventColumns | None]]]()
    for batch, count in _batches(data):
        task = _threads().submit(_decode, batch, count, slots, left_out, columns)
        pending.append((batch, task))
        if len(pending) > _AHEAD:
            first, task = pending.popleft()
            yield first, task.result()
    while pending:
        first, task = pending.popleft()
        yield first, task.result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "counterpoint-decode")


def _batches(data: Bytes) -> Iterator[tuple[Bytes, int]]:
    """Yield whole events and their number."""
    library = _library()
    at, count = 0, ctypes.c_size_t()
    while library is not None and at < len(data):
        begin = data.ctypes.data + at
        size = library.measure_events(begin, len(data) - at, _ROOM, ctypes.byref(count))
        if not size:
            return
        yield data[at : at + size], count.value
        at += size


def _decode(
    batch: Bytes, rows: int, slots: NDArray[np.int8], left_out: Bytes, columns: int
) -> EventColumns | None:
    library = _library()
    if library is None:
        return None
    metadata, offset, duration = (np.empty(rows, np.int64) for _ in range(3))
    value = np.zeros((columns, rows), np.int64)
    known, kind = (np.zeros((columns, rows), np.uint8) for _ in range(2))
    outcome = _DecodeOutcome()
    request = _DecodeRequest(
        batch.ctypes.data, len(batch), slots.ctypes.data, len(slots), left_out.ctypes.data,
        len(left_out), rows, columns, metadata.ctypes.data, offset.ctypes.data,
        duration.ctypes.data, value.ctypes.data, known.ctypes.data, kind.ctypes.data,
    )  # fmt: skip
    failed = library.decode_events(ctypes.byref(request), ctypes.byref(outcome))
    if failed or outcome.consumed != len(batch):
        return None
    found = slice(outcome.rows)
    return EventColumns(
        metadata[found], offset[found], duration[found], value[:, found],
        known[:, found].view(bool), kind[:, found], outcome.left_out, outcome.summaries,
        outcome.spelled > 0,
    )  # fmt: skip
