"""Protobuf's wire format, one message at a time.

Reference: https://protobuf.dev/programming-guides/encoding. Groups (wire types 3, 4) are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

__all__ = [
    "FIXED32",
    "FIXED64",
    "LENGTH",
    "VARINT",
    "Malformed",
    "fields",
    "message_field",
    "varint",
    "varint_field",
    "written_varint",
]

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5

_ALL_BITS: Final = (1 << 64) - 1


class Buffer(Protocol):
    """Bytes by position: bytes, a memoryview, or a mapped file."""

    def __getitem__(self, at: int, /) -> int: ...


class Malformed(ValueError):
    """Raised for bytes that do not match the schema."""


def varint(data: Buffer, at: int) -> tuple[int, int]:
    """Return one varint, and the position after it; bits beyond the 64th are dropped, as usual."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _ALL_BITS, at
        shift += 7
        if shift > 63:
            raise Malformed(f"a number of more than ten bytes at offset {at}")


def fields(data: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield each field of one message: number, wire type, and start and end of its content.

    For a varint the content is its own bytes.
    """
    at = start
    while at < end:
        field = at
        try:
            tag, at = varint(data, at)
            number, wire = tag >> 3, tag & 7
            begin = at
            if wire == VARINT:
                _, at = varint(data, at)
            elif wire == FIXED64:
                at += 8
            elif wire == LENGTH:
                length, begin = varint(data, at)
                at = begin + length
            elif wire == FIXED32:
                at += 4
            else:
                raise Malformed(f"wire type {wire} at offset {field}")
        except IndexError:
            raise Malformed(f"the file ends inside the field at offset {field}") from None
        if number == 0 or at > end:
            raise Malformed(f"the field at offset {field} reaches behind its message")
        yield number, wire, begin, at


def written_varint(value: int) -> bytes:
    """Return the bytes of one varint, which may be at most 64 bits."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def varint_field(number: int, value: int) -> bytes:
    """Return one field with a number."""
    return written_varint(number << 3 | VARINT) + written_varint(value)


def message_field(number: int, content: bytes) -> bytes:
    """Return one field with a message or bytes."""
    return written_varint(number << 3 | LENGTH) + written_varint(len(content)) + content
