"""What a serialized executable of XLA:GPU contains beside machine code: the module and its buffers.

An executable is, by jaxlib:

    0.8, 0.9    a message: field 1 is the executable
    0.10, 0.11  metadata behind its length, then a message of which field 1 is a Riegeli file:
                its last record is the executable
    0.12        metadata behind its length, then a Riegeli file that has such a file as a record

and in it field 1 is the module with its configuration, field 2 the assignment of buffers. Runs in
the worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from counterpoint.compile.job import CompileRefused, FailureKind
from counterpoint.core.riegeli import chunks, is_riegeli
from counterpoint.core.wire import LENGTH, Malformed, fields, varint

_MODULE, _ASSIGNMENT = 1, 2
_DEEPEST: Final = 3


def module_of(executable: bytes) -> bytes:
    """Return the HloModuleProto; raise CompileRefused if the bytes have another form."""
    for inner in _executables(executable):
        try:
            config = next(_parts(inner, _MODULE))
            return bytes(next(_parts(config, _MODULE)))
        except (StopIteration, Malformed):
            continue
    raise _odd()


def assignment_of(executable: bytes) -> bytes | None:
    """Return the BufferAssignmentProto; None if the bytes have another form."""
    for inner in _executables(executable):
        try:
            if next(_parts(inner, _MODULE), None) is not None:
                return bytes(next(_parts(inner, _ASSIGNMENT)))
        except (StopIteration, Malformed):
            continue
    return None


def _executables(data: bytes) -> Iterator[memoryview]:
    """Yield what may be XLA's executable: the form of later releases first."""
    whole = memoryview(data)
    with suppress(IndexError, Malformed):
        size, at = varint(whole, 0)
        yield from _records(whole[at + size :], _DEEPEST)
    with suppress(Malformed):
        yield from _parts(whole, 1)


def _records(data: memoryview, deepest: int) -> Iterator[memoryview]:
    """Yield the records of Riegeli files in the data, the last of each first."""
    if not deepest:
        return
    if not is_riegeli(bytes(data[:64])):
        for part in _parts(data, 1):
            if is_riegeli(bytes(part[:64])):
                yield from _records(part, deepest - 1)
        return
    records = [record for chunk in chunks(data) for record in chunk.records()]
    for record in reversed(records):
        if is_riegeli(bytes(record[:64])):
            yield from _records(record, deepest - 1)
        else:
            yield record


def _parts(data: memoryview, wanted: int) -> Iterator[memoryview]:
    for number, wire, start, end in fields(data, 0, len(data)):
        if number == wanted and wire == LENGTH:
            yield data[start:end]


def _odd() -> CompileRefused:
    return CompileRefused(
        FailureKind.COMPILER, "this XLA serializes compiled programs in an unknown format"
    )
