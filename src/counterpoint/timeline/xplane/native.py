"""Decodes events by the compiled decoder, where the installation has one (native/ in the sources).

Without it the columns are the same, and reading takes about five times as long. The library is
called through ctypes, which releases the interpreter's lock, so batches are decoded in parallel.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from counterpoint.core.frozen import frozen

Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]

T = TypeVar("T")

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
    data: Bytes,
    slots: NDArray[np.int8],
    left_out: Bytes,
    columns: int,
    then: Callable[[EventColumns], T],
) -> Iterator[tuple[Bytes, EventColumns | None, T | None]]:
    """Yield the events from the first byte on in batches of bytes, each with its columns.

    The columns are None if the bytes are not as expected. The batches end at a field that is no
    event, or at an event that is cut off. `slots` gives the column of each stat id; `left_out` is 1
    for metadata ids to leave out. What `then` makes of the columns, it makes in the same thread.
    """

    def decode(batch: Bytes, count: int) -> tuple[Bytes, EventColumns | None, T | None]:
        decoded = _decode(batch, count, slots, left_out, columns)
        return batch, decoded, None if decoded is None else then(decoded)

    pending = deque[Future[tuple[Bytes, EventColumns | None, T | None]]]()
    for batch, count in _batches(data):
        pending.append(_threads().submit(decode, batch, count))
        if len(pending) > _AHEAD:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "counterpoint-decode")


def _batches(data: Bytes) -> Iterator[tuple[Bytes, int]]:
    """Yield whole events and their number; where the next ones end is found in a thread."""
    first = _measure(data, 0)
    while first:
        at = first[-1][0].stop
        following = _threads().submit(_measure, data, at) if at < len(data) else None
        for batch, count in first:
            yield data[batch], count
        first = following.result() if following is not None else []


def _measure(data: Bytes, at: int) -> list[tuple[slice, int]]:
    """Return the next few batches from a position on."""
    library = _library()
    count = ctypes.c_size_t()
    found: list[tuple[slice, int]] = []
    while library is not None and at < len(data) and len(found) < _AHEAD:
        begin = data.ctypes.data + at
        size = library.measure_events(begin, len(data) - at, _ROOM, ctypes.byref(count))
        if not size:
            break
        found.append((slice(at, at + size), count.value))
        at += size
    return found


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
