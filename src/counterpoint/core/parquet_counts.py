"""Checks the counts in a Parquet file, before polars makes room for them.

polars allocates what a file says that it holds. A count that is negative, or more than there is
memory for, ends the process, which nothing can catch: neither an exception nor a panic. All else
that is damaged in such a file is one of them.

The counts are in the footer and in the header of each page: Thrift structs in the compact protocol.
Their meaning is in parquet.thrift of https://github.com/apache/parquet-format, their layout in
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from counterpoint.core.unpacking import UNPACK_VARIABLE, unpack_limit
from counterpoint.core.wire import Malformed, varint

__all__ = ["check_parquet"]

_MAGIC: Final = b"PAR1"
_END: Final = 8
_WIDTH: Final = 8
"""Bytes of one value, as polars has most of them in memory."""
_DEEPEST: Final = 8
_LARGEST: Final = 8 << 20
"""Bytes of a footer; one of a thousand million rows has fewer."""
_SMALLEST: Final = 8
"""Bytes of a page: a file that claims more of them than it has room for repeats itself."""

# Fields of the structs.
_FILE_ROWS, _ROW_GROUPS = 3, 4
_CHUNKS, _ROWS = 1, 3
_META, _VALUES, _UNPACKED, _PACKED, _DATA, _DICTIONARY = 3, 5, 6, 7, 9, 11
_PAGE_UNPACKED, _PAGE_PACKED, _CHECKSUM = 2, 3, 4
_PAGE_KINDS: Final = (5, 7, 8)

_Struct = dict[int, Any]
_Data = bytes | mmap.mmap


def check_parquet(file: Path | bytes) -> None:
    """Raise a ValueError for a file whose counts can't be true, an OSError if it can't be read."""
    if isinstance(file, bytes):
        _check(file)
    elif size := file.stat().st_size:
        with (
            file.open("rb") as opened,
            mmap.mmap(opened.fileno(), size, prot=mmap.PROT_READ) as data,
        ):
            _check(data)
    else:
        raise ValueError("the file is empty")


def _check(data: _Data) -> None:
    length = int.from_bytes(data[-_END:-4], "little")
    if data[-4:] != _MAGIC or length > min(_LARGEST, len(data) - _END):
        raise ValueError("its end is missing or damaged")
    limit = unpack_limit(len(data))
    try:
        footer, _ = _struct(data, len(data) - _END - length)
        groups: list[_Struct] = footer.get(_ROW_GROUPS, [])
        rows = [footer.get(_FILE_ROWS, 0), *(group.get(_ROWS, 0) for group in groups)]
        chunks = [chunk.get(_META, {}) for group in groups for chunk in group.get(_CHUNKS, [])]
        total = max(_WIDTH * max(_count(number) for number in rows), _unpacked(data, chunks))
    except (AttributeError, IndexError, TypeError, Malformed) as damage:
        raise ValueError(f"its counts are damaged: {damage}") from None
    if total > limit:
        raise ValueError(
            f"it would take {total >> 20:,} MiB of memory, which is more than {limit >> 20:,} MiB;"
            f" if that is right, export {UNPACK_VARIABLE}={(total >> 30) + 1}GiB"
        )


def _unpacked(data: _Data, chunks: list[_Struct]) -> int:
    total, left = 0, len(data) // _SMALLEST
    for chunk in chunks:
        pages = [*islice(_pages(data, chunk), left + 1)]
        left -= len(pages)
        values = max(_count(chunk.get(_VALUES, 0)), sum(values for values, _ in pages))
        size = max(_count(chunk.get(_UNPACKED, 0)), sum(size for _, size in pages))
        total += max(_WIDTH * values, size)
        if left < 0:
            raise Malformed("more pages than there is room for")
    return total


def _pages(data: _Data, chunk: _Struct) -> Iterator[tuple[int, int]]:
    """Yield the values and the unpacked bytes of each page of a column chunk."""
    starts = [_count(chunk.get(field, 0)) for field in (_DICTIONARY, _DATA)]
    at = min((start for start in starts if start), default=len(data))
    end = min(at + _count(chunk.get(_PACKED, 0)), len(data))
    while at < end:
        header, at = _struct(data, at)
        header.pop(_CHECKSUM, None)
        kinds = [header.get(kind, {}) for kind in _PAGE_KINDS]
        for number in (*header.values(), *(number for kind in kinds for number in kind.values())):
            if isinstance(number, int):
                _count(number)
        yield sum(kind.get(1, 0) for kind in kinds), header.get(_PAGE_UNPACKED, 0)
        at += header.get(_PAGE_PACKED, 0)


def _count(number: object) -> int:
    if cast("int", number) < 0:
        raise Malformed(f"one is {number}")
    return cast("int", number)


def _number(data: _Data, at: int) -> tuple[int, int]:
    folded, at = varint(data, at)
    return folded >> 1 ^ -(folded & 1), at


def _struct(data: _Data, at: int, depth: int = 0) -> tuple[_Struct, int]:
    """Return the fields of a struct by their ids, and the position after it."""
    found: _Struct = {}
    field = 0
    while kind := data[at]:
        step, kind, at = kind >> 4, kind & 15, at + 1
        if step:
            field += step
        else:
            field, at = _number(data, at)
        found[field], at = (kind == 1, at) if kind < 3 else _value(data, at, kind, depth)
    return found, at + 1


def _value(data: _Data, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == 12 and depth < _DEEPEST:
        return _struct(data, at, depth + 1)
    if kind == 8:  # text
        length, at = varint(data, at)
        return None, at + length
    if kind in (4, 5, 6):
        return _number(data, at)
    if kind in (9, 10) and depth < _DEEPEST:  # a list, a set
        items: list[Any] = []
        count, kind, at = data[at] >> 4, data[at] & 15, at + 1
        if count == 15:
            count, at = varint(data, at)
        for _ in range(count):
            item, at = _value(data, at, kind, depth + 1)
            items.append(item)
        return items, at
    if kind in (1, 2, 3, 7):  # a boolean in a list, a byte, a double
        width = 8 if kind == 7 else 1
        return data[at + width - 1], at + width
    raise Malformed(f"a value of kind {kind}")  # the format has no maps
