"""Records of a Riegeli file: the container of captures in pieces, and of serialized executables.

    signature  chunk  chunk ...    a block header of 24 bytes interrupts them every 64 KiB
    chunk      header of 40 bytes, data, padding
    data       compression, compressed sizes of the records, compressed records

XLA writes simple chunks: of captures compressed with Brotli and padded to whole blocks
(xla/tsl/profiler/rpc/client/save_profile.cc), of executables compressed with Snappy. Transposed
chunks and other compressions are refused. The hashes are not verified: HighwayHash in Python would
take longer than all the rest. Damage shows in a chunk's sizes, in its compressed data, or in the
messages inside.

Reference: google/riegeli, doc/riegeli_records_file_format.md.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

from counterpoint.core.snappy import from_snappy
from counterpoint.core.wire import Malformed, varint

_SIGNATURE: Final = bytes.fromhex("83af70d10d884a3f 0000000000000000 4000000000000000")
"""The first block header: its hash and its two distances are the same in every file."""

_BLOCK: Final = 1 << 16
_BLOCK_HEADER: Final = 24
_USABLE: Final = _BLOCK - _BLOCK_HEADER
_CHUNK_HEADER: Final = 40

_SIMPLE: Final = ord("r")
_TRANSPOSED: Final = ord("t")
_WITHOUT_RECORDS: Final = b"smp"  # signature, metadata, padding

_PLAIN: Final = 0
_BROTLI: Final = ord("b")
_SNAPPY: Final = ord("s")
_OTHERS: Final = {ord("z"): "Zstandard"}

_FED_BYTES: Final = 1 << 20
"""Input per call of the decoder, which copies what it has not consumed."""

_OUTPUT_BYTES: Final = 4 << 20

_LONGEST_VARINT: Final = 10


class _Decompressor(Protocol):
    def process(self, data: memoryview, output_buffer_limit: int) -> bytes: ...

    def is_finished(self) -> bool: ...

    def can_accept_more_data(self) -> bool: ...


class UnreadRiegeli(Malformed):
    """Raised for a part of the format that XLA does not write."""


def is_riegeli(head: bytes) -> bool:
    """Return whether a file with this head is a Riegeli file."""
    return head.startswith(_SIGNATURE)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some records of the file, still compressed; `size` is that of the records."""

    file: memoryview
    start: int
    end: int
    count: int
    size: int
    packed: int

    def records(self) -> Iterator[memoryview]:
        """Decompress, and yield each record; raise Malformed for damage."""
        data = memoryview(b"".join(_pieces(self.file, self.start, _CHUNK_HEADER, self.packed)))
        try:
            compression = data[0]
            sizes_size, at = varint(data, 1)
            values_at = at + sizes_size
        except IndexError:
            raise _damaged(self.start) from None
        if values_at > len(data):
            raise _damaged(self.start)
        most = self.count * _LONGEST_VARINT
        sizes = self._sizes(_unpacked(data[at:values_at], compression, most, self.start))
        values = _unpacked(data[values_at:], compression, self.size, self.start)
        if sum(sizes) != len(values) or len(values) != self.size:
            raise _damaged(self.start)
        del data
        begin = 0
        for size in sizes:
            yield values[begin : begin + size]
            begin += size

    def _sizes(self, data: memoryview) -> list[int]:
        sizes: list[int] = []
        at = 0
        try:
            while at < len(data):
                size, at = varint(data, at)
                sizes.append(size)
        except IndexError:
            raise _damaged(self.start) from None
        if len(sizes) != self.count:
            raise _damaged(self.start)
        return sizes


def chunks(data: memoryview) -> Iterator[Chunk]:
    """Yield the chunks that hold records; raise Malformed where the file is damaged or ends."""
    at = 0
    while at < len(data):
        if len(data) < _behind(at, _CHUNK_HEADER):
            raise Malformed(f"the file ends inside the header at offset {at}")
        header = b"".join(_pieces(data, at, 0, _CHUNK_HEADER))
        size, count, decoded = (
            int.from_bytes(header[part], "little")
            for part in (slice(8, 16), slice(25, 32), slice(32, 40))
        )
        kind = header[24]
        if kind == _TRANSPOSED:
            raise UnreadRiegeli("its records are transposed, which this version does not read")
        if kind != _SIMPLE and kind not in _WITHOUT_RECORDS:
            raise _damaged(at)
        end = max(_behind(at, _CHUNK_HEADER + size), _boundary(at + count))
        if end > len(data):
            raise Malformed(f"the file ends inside the chunk at offset {at}")
        if kind == _SIMPLE:
            yield Chunk(file=data, start=at, end=end, count=count, size=decoded, packed=size)
        at = end


def _damaged(at: int) -> Malformed:
    return Malformed(f"the chunk at offset {at} is damaged")


def _behind(at: int, size: int) -> int:
    """Return the end of `size` bytes of a chunk that begins at `at`, block headers included."""
    headers = (size + (at + _USABLE - 1) % _BLOCK) // _USABLE
    return at + size + headers * _BLOCK_HEADER


def _boundary(at: int) -> int:
    """Return the next position at which a chunk may begin: not inside or right after a header."""
    remaining = _BLOCK - 1 - (at + _BLOCK - 1) % _BLOCK
    return at + max(0, remaining - (_USABLE - 1))


def _pieces(data: memoryview, chunk: int, offset: int, size: int) -> Iterator[memoryview]:
    """Yield `size` bytes of a chunk, from an offset in it, without the block headers."""
    at = chunk if offset == 0 else _behind(chunk, offset)
    while size:
        if at % _BLOCK == 0:
            at += _BLOCK_HEADER
        piece = data[at : at + min(size, _BLOCK - at % _BLOCK)]
        yield piece
        at += len(piece)
        size -= len(piece)


def _unpacked(data: memoryview, compression: int, most: int, at: int) -> memoryview:
    """Decompress one buffer, of `most` bytes at most, of the chunk at `at`."""
    if compression == _PLAIN:
        if len(data) > most:
            raise _damaged(at)
        return data
    if compression not in (_BROTLI, _SNAPPY):
        name = _OTHERS.get(compression)
        if name is None:
            raise _damaged(at)
        raise UnreadRiegeli(f"it is compressed with {name}, which this version does not read")
    try:
        size, begin = varint(data, 0)
    except IndexError:
        raise _damaged(at) from None
    if size > most:
        raise _damaged(at)
    if compression == _SNAPPY:
        return memoryview(from_snappy(data[begin:], size))
    return _from_brotli(data[begin:], size, at)


def _from_brotli(data: memoryview, size: int, at: int) -> memoryview:
    """Decompress to exactly `size` bytes, in small steps: a bomb ends at the first byte more."""
    brotli: Any = import_module("brotli")  # it has no types
    # Pages of its own, which go back to the system with the piece: not to an allocator's heap.
    out = memoryview(mmap.mmap(-1, max(1, size)))[:size]
    decoder: _Decompressor = brotli.Decompressor()
    done = fed = 0
    try:
        while not decoder.is_finished():
            given = data[:0]
            if decoder.can_accept_more_data():
                given = data[fed : fed + _FED_BYTES]
                fed += len(given)
            piece = decoder.process(given, output_buffer_limit=_OUTPUT_BYTES)
            if done + len(piece) > size or not (piece or given or decoder.is_finished()):
                raise _damaged(at)
            out[done : done + len(piece)] = piece
            done += len(piece)
    except brotli.error:
        raise _damaged(at) from None
    if done != size or fed != len(data):
        raise _damaged(at)
    return out
