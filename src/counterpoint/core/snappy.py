"""Decompresses Snappy's raw format.

    length   varint
    literal  tag, its length, bytes
    copy     tag, length and distance: bytes that are already in the result

Reference: google/snappy, format_description.txt.
"""

from __future__ import annotations

from counterpoint.core.wire import Malformed, varint


def from_snappy(data: memoryview, most: int) -> bytes:
    """Return the content; raise Malformed if it is damaged or longer than `most` bytes."""
    try:
        size, at = varint(data, 0)
        if size > most:
            raise Malformed("the content is longer than it should be")
        return _decompressed(data, at, size)
    except IndexError:
        raise Malformed("the content ends too early") from None


def _decompressed(data: memoryview, at: int, size: int) -> bytes:
    out = bytearray()
    while at < len(data):
        tag = data[at]
        kind, at = tag & 3, at + 1
        if kind == 0:
            length = tag >> 2
            if length >= 60:
                width = length - 59
                length, at = int.from_bytes(data[at : at + width], "little"), at + width
            out += data[at : at + length + 1]
            at += length + 1
        else:
            at = _copy(out, data, tag, at)
        if len(out) > size:
            raise Malformed("the content is longer than it says")
    if len(out) != size:
        raise Malformed("the content is shorter than it says")
    return bytes(out)


def _copy(out: bytearray, data: memoryview, tag: int, at: int) -> int:
    """Repeat bytes of the result; return the position behind the copy."""
    kind = tag & 3
    if kind == 1:
        length, distance = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[at]
        at += 1
    else:
        width = 2 if kind == 2 else 4
        length, distance = (tag >> 2) + 1, int.from_bytes(data[at : at + width], "little")
        at += width
    if not 0 < distance <= len(out):
        raise Malformed("a copy reaches before the content")
    start = len(out) - distance
    while length > 0:  # it may overlap what it writes
        piece = out[start : start + length]
        out += piece
        start += len(piece)
        length -= len(piece)
    return at
