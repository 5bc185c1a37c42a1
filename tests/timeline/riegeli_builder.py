"""Riegeli files as XLA writes them: the signature, simple chunks, padding to a whole block.

The hashes of headers and data are left zero: Counterpoint does not look at them, but other readers
do. Reference: google/riegeli, doc/riegeli_records_file_format.md.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import BinaryIO

import brotli
from xspace_builder import varint

BLOCK = 1 << 16
SIGNATURE = bytes.fromhex(
    "83af70d10d884a3f 0000000000000000 4000000000000000"
    "91bac23c9287e1a9 0000000000000000 e19f13c0e9b1c372 7300000000000000 0000000000000000"
)
HEADER = 24
OF_CHUNK = 40


class RiegeliWriter:
    """Writes chunks to a file, interrupted by block headers."""

    def __init__(self, file: BinaryIO, *, compression: str = "b", quality: int = 5) -> None:
        self._file = file
        self._compression = compression
        self._quality = quality
        self._at = file.write(SIGNATURE)

    def write(self, records: Sequence[bytes]) -> None:
        """Write one chunk with these records."""
        sizes = self._packed(b"".join(varint(len(record)) for record in records))
        values = self._packed(b"".join(records))
        data = self._compression.encode() if self._compression != "none" else b"\0"
        data += varint(len(sizes)) + sizes + values
        self.write_chunk("r", data, len(records), sum(map(len, records)))

    def write_chunk(self, kind: str, data: bytes, count: int = 0, size: int = 0) -> None:
        """Write a chunk of any kind, with its header."""
        header = bytes(8) + len(data).to_bytes(8, "little") + bytes(8) + kind.encode()
        header += count.to_bytes(7, "little") + size.to_bytes(8, "little")
        rest = memoryview(header + data)
        while rest:
            if self._at % BLOCK == 0:
                self._at += self._file.write(bytes(HEADER))
            piece = rest[: BLOCK - self._at % BLOCK]
            self._at += self._file.write(piece)
            rest = rest[len(piece) :]

    def pad(self) -> None:
        """Fill the last block."""
        left = -self._at % BLOCK
        if left:
            inside = left - OF_CHUNK
            self.write_chunk("p", bytes(inside if inside >= 0 else inside + BLOCK - HEADER))

    def _packed(self, data: bytes) -> bytes:
        if self._compression == "none":
            return data
        return varint(len(data)) + brotli.compress(data, quality=self._quality)


def riegeli(chunks: Iterable[Sequence[bytes]], compression: str = "b") -> bytes:
    """A whole file with these chunks of records."""
    file = io.BytesIO()
    writer = RiegeliWriter(file, compression=compression)
    for records in chunks:
        writer.write(records)
    writer.pad()
    return file.getvalue()
