"""Unpacks compressed files and archives, within a limit.

A few megabytes can unpack to more than a disk or memory holds. Profiles and programs unpack to 5 to
50 times their size, so more than 200 times is refused; what is small always unpacks. What is held
in memory as a whole may take a quarter of the machine's, and where its beginning unpacks to more
than 200 times its size, the rest is not tried.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final

from counterpoint.core.errors import InputError, UsageError
from counterpoint.core.machine import whole_memory

__all__ = ["PACKED_ENDING", "is_packed", "member", "open_archive", "unpack", "unpack_limit"]

UNPACK_VARIABLE: Final = "COUNTERPOINT_UNPACK_LIMIT"
PACKED_ENDING: Final = re.compile(r"\.(xz|gz|bz2)$")
_RATIO: Final = 200
_ALWAYS: Final = 64 << 20
_DEPTH: Final = 3
"""A file that was compressed twice by mistake can be read, but not a tower of them."""
_BLOCK: Final = 1 << 20
_BEGINNING: Final = 256 << 20
_SHARE: Final = 4
"""What is unpacked is then decoded: it takes several times its size."""
_COPY_AGAIN: Final = "copy the file again in binary mode"

_FORMATS: Final[Mapping[bytes, Callable[[BinaryIO], Any]]] = {
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
}
_DAMAGE: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError,
    RuntimeError,  # a password
    NotImplementedError,  # a method that zipfile does not know
)  # fmt: skip
_SIZE: Final = re.compile(r"(\d{1,15})\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def unpack_limit(packed: int) -> int:
    """Return the number of bytes that data of this size may unpack to, piece by piece."""
    setting = _setting()
    return max(_ALWAYS, _RATIO * packed) if setting is None else setting


def _memory_limit() -> int:
    """Return the number of bytes that may be unpacked into memory at once."""
    setting = _setting()
    return max(_ALWAYS, whole_memory() // _SHARE) if setting is None else setting


def _setting() -> int | None:
    setting = os.environ.get(UNPACK_VARIABLE, "").strip()
    if not setting:
        return None
    if match := _SIZE.fullmatch(setting):
        return int(match[1]) << 10 * " KMGT".index(match[2].upper() or " ")
    raise UsageError(
        f"{UNPACK_VARIABLE}={setting} is not a size", next=f"export {UNPACK_VARIABLE}=20GiB"
    )


def is_packed(data: bytes | memoryview) -> bool:
    """Return whether data begins like a file of gzip, xz or bzip2."""
    return bytes(data[:6]).startswith(tuple(_FORMATS))


def unpack(data: bytes | memoryview, where: str) -> bytes:
    """Return the data unpacked if it is compressed, and unchanged if it is not."""
    limit = unpack_limit(len(data))
    for _ in range(_DEPTH):
        if not is_packed(data):
            return bytes(data)
        data = _unpack_once(data, limit, where)
    if is_packed(data):
        raise InputError(
            f"{where}: compressed more than {_DEPTH} times", next="unpack it, and name the result"
        )
    return bytes(data)


def _unpack_once(data: bytes | memoryview, limit: int, where: str) -> bytes:
    opened = next(opens for magic, opens in _FORMATS.items() if bytes(data[:6]).startswith(magic))
    packed, out, size = io.BytesIO(data), io.BytesIO(), 0
    memory, chosen = _memory_limit(), _setting() is not None
    try:
        with opened(packed) as file:
            while block := file.read(_BLOCK):
                size += out.write(block)
                so_far = limit if chosen else _BEGINNING + _RATIO * packed.tell()
                if size > min(limit, so_far):
                    raise too_large(where, min(limit, so_far))
                if size > memory:
                    raise _beyond_memory(where, memory)
    except MemoryError:
        raise _beyond_memory(where, size) from None
    except _DAMAGE as damage:
        raise InputError(
            f"{where}: the compressed data is damaged or cut off",
            why=str(damage) or type(damage).__name__,
            next=_COPY_AGAIN,
        ) from None
    return out.getvalue()


def too_large(where: str, limit: int) -> InputError:
    """Return the error for data that unpacks to more than the limit."""
    return InputError(
        f"{where}: it unpacks to more than {limit >> 20:,} MiB",
        why="a small file that unpacks to that much is damaged, or made to fill memory",
        next=f"if it is right, set a larger limit: export {UNPACK_VARIABLE}=20GiB",
    )


def _beyond_memory(where: str, size: int) -> InputError:
    """Return the error for data that is held in memory, and takes more than there is for it."""
    return InputError(
        f"{where}: it unpacks to more than {size >> 20:,} MiB, which is too much for this machine",
        why=f"it has {whole_memory() >> 20:,} MiB of memory, and what is read takes several times"
        " its size",
        next=f"read it on a larger machine, or set the limit: export {UNPACK_VARIABLE}=20GiB",
    )


def open_archive(file: str | os.PathLike[str] | BinaryIO, where: str) -> zipfile.ZipFile:
    """Open a zip file whose members together unpack within the limit."""
    try:
        archive = zipfile.ZipFile(file)
    except _DAMAGE as damage:
        raise InputError(
            f"{where}: a damaged zip archive: {_reason(damage)}", next=_COPY_AGAIN
        ) from None
    stream = archive.fp
    limit = unpack_limit(stream.seek(0, os.SEEK_END) if stream is not None else 0)
    # zipfile unpacks no more of a member than its entry says.
    if sum(info.file_size for info in archive.infolist()) > limit:
        archive.close()
        raise too_large(where, limit)
    if not all(archive.namelist()):  # zipfile fails when it asks whether such a one is a directory
        archive.close()
        raise InputError(f"{where}: a damaged zip archive: a member has no name", next=_COPY_AGAIN)
    return archive


def member(archive: zipfile.ZipFile, name: str, where: str) -> bytes:
    """Return the content of a member."""
    memory = _memory_limit()
    try:
        if archive.getinfo(name).file_size > memory:
            raise _beyond_memory(where, memory)
        return archive.read(name)
    except MemoryError:
        raise _beyond_memory(where, archive.getinfo(name).file_size) from None
    except _DAMAGE as damage:
        raise InputError(
            f"{where}: {name} can't be unpacked: {_reason(damage)}",
            next="copy the archive again, or unpack it with `unzip` and name the file",
        ) from None


def _reason(damage: BaseException) -> str:
    return getattr(damage, "strerror", None) or str(damage) or type(damage).__name__
