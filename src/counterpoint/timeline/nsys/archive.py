"""Members of an nsys-jax bundle, written by either of its two tools.

`nsys-jax` writes the files of one rank. `nsys-jax-combine` merges such bundles: a file that differs
between ranks becomes a directory of that name with one file per rank, named like the rank's bundle;
a file that does not differ, or that only one rank has, stays as it is.

Damage is detected by the zip's own checksums, before the Parquet reader sees the data.
"""

from __future__ import annotations

import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable
from typing import Final

import polars as pl

from counterpoint.core import InputError
from counterpoint.timeline.tables.recording import EmbeddedProgram

TRACE: Final = "nvtx_gpu_proj_trace/trace.parquet"
THREADS: Final = "thread-metadata.parquet"
SYSTEM: Final = "system-metadata.parquet"
DEVICES: Final = "device-metadata.parquet"
HOST_TRACE: Final = "report_nvtx_pushpop_trace"

_HLO: Final = re.compile(
    r"dump/module_(\d+)\.(.+?)\.[^/]*after_optimizations\.hlo\.pb(\.xz)?(?:/(.+))?$"
)
_LARGEST_HLO: Final = 1 << 31
"""Protobuf's own limit."""

_LARGEST_RATIO: Final = 200
_SMALL: Final = 64 << 20

# zipfile raises NotImplementedError for unknown compression, which a damaged byte may produce.
_BROKEN: Final = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError)


def is_nsys_jax(archive: zipfile.ZipFile) -> bool:
    """Return whether an archive is a bundle: it contains the trace of projected ranges."""
    return any(name == TRACE or name.startswith(TRACE + "/") for name in archive.namelist())


class Archive:
    """The members of a bundle, by their names in a bundle of one rank."""

    def __init__(self, archive: zipfile.ZipFile, source: str) -> None:
        self.source = source
        self._archive = archive
        self._names = set(archive.namelist())

    def ranks(self) -> list[str | None]:
        """Return the ranks in the bundle; [None] for a single, unnamed rank."""
        prefix = TRACE + "/"
        merged = sorted(
            name.removeprefix(prefix) for name in self._names if name.startswith(prefix)
        )
        return [name for name in merged if name] or [None]

    def has(self, name: str, rank: str | None) -> bool:
        """Return whether the rank has this file."""
        return self._locate(name, rank) is not None

    def read(self, name: str, rank: str | None) -> bytes | None:
        """Return the bytes of a rank's file, None if it has none."""
        member = self._locate(name, rank)
        return None if member is None else self._read(member)

    def table(self, name: str, rank: str | None) -> pl.DataFrame | None:
        """Read a rank's Parquet file."""
        data = self.read(name, rank)
        if data is None:
            return None
        try:
            return pl.read_parquet(io.BytesIO(data))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as failure:
            raise self.broken(name, str(failure).partition("\n")[0]) from None

    def programs(self, rank: str | None) -> dict[str, EmbeddedProgram]:
        """Return a rank's optimized modules by program id; each is decompressed on first use."""
        found: dict[str, EmbeddedProgram] = {}
        for name in sorted(self._names):
            match = _HLO.match(name)
            if match and match[4] in (None, rank):
                data = self._read(name)
                load = self._loader(name, data) if match[3] else _constant(data)
                found[str(int(match[1]))] = EmbeddedProgram(match[2], load)
        return found

    def broken(self, name: str, why: str) -> InputError:
        """Return the error for a member that can't be read."""
        return InputError(
            f"{self.source}: {name} can't be read",
            why=why,
            next="copy the bundle again, or run nsys-jax again",
        )

    def _locate(self, name: str, rank: str | None) -> str | None:
        own = f"{name}/{rank}"
        if rank is not None and own in self._names:
            return own
        return name if name in self._names else None

    def _read(self, member: str) -> bytes:
        info = self._archive.getinfo(member)
        if info.file_size > max(_SMALL, info.compress_size * _LARGEST_RATIO):
            raise self.broken(member, f"it claims to unpack to {info.file_size:,} bytes")
        try:
            return self._archive.read(member)
        except (*_BROKEN, RuntimeError, MemoryError) as failure:
            raise self.broken(member, str(failure)) from None

    def _loader(self, name: str, data: bytes) -> Callable[[], bytes]:
        return lambda: self.unpack(name, data)

    def unpack(self, name: str, data: bytes) -> bytes:
        """Return the content of an .xz member."""
        unpacker = lzma.LZMADecompressor()
        try:
            content = unpacker.decompress(data, _LARGEST_HLO)
        except (lzma.LZMAError, MemoryError) as failure:
            raise self.broken(name, str(failure)) from None
        if not unpacker.eof:
            raise self.broken(name, "its compressed content is cut off, or larger than 2 GiB")
        return content


def _constant(data: bytes) -> Callable[[], bytes]:
    return lambda: data
