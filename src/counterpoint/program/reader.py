"""Read a Program from a file or from bytes: HLO proto or HLO text, compressed or not."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from os import PathLike
from pathlib import Path

from counterpoint.core.errors import InputError
from counterpoint.program.program import Program
from counterpoint.program.proto_reader import program_from_proto
from counterpoint.program.text_reader import program_from_text

_PACKERS: dict[bytes, Callable[[bytes], bytes]] = {
    b"\xfd7zXZ\x00": lzma.decompress,
    b"\x1f\x8b": gzip.decompress,
    b"BZh": bz2.decompress,
}
_TEXT_MARK = b"HloModule "


def read_program(source: bytes | str | PathLike[str]) -> Program:
    """The Program in a file (or in its bytes): *.hlo.pb or HLO text, also .xz, .gz or .bz2."""
    if isinstance(source, bytes):
        return _read(source, "the given bytes")
    path = Path(source)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} can't be read", why=error.strerror or str(error), next="check the path"
        ) from error
    return _read(data, str(path))


def _read(data: bytes, where: str) -> Program:
    data = _unpacked(data, where)
    if not data:
        raise InputError(f"{where}: empty, so there is no program in it")
    try:
        if _is_text(data):
            return program_from_text(data.decode(errors="replace"))
        return program_from_proto(data)
    except InputError as error:
        raise InputError(f"{where}: {error.what}", why=error.why, next=error.next) from error


def _is_text(data: bytes) -> bool:
    # A proto may contain the mark too, but never starts with printable words.
    head = data.lstrip()[:4096]
    at = head.find(_TEXT_MARK)
    return at == 0 or (at > 0 and b"\x00" not in head[:at] and head[:at].isascii())


def _unpacked(data: bytes, where: str) -> bytes:
    for magic, unpack in _PACKERS.items():
        if data.startswith(magic):
            try:
                return unpack(data)
            except (OSError, EOFError, lzma.LZMAError, zlib.error, ValueError) as error:
                raise InputError(
                    f"{where}: the compressed data is damaged or cut off", why=str(error)
                ) from error
    return data
