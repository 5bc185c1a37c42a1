"""Files that a compiler or JAX left behind, in a directory or in a zip, by their plain content.

Whether a file is compressed, and lies on disk or in a bundle, is nobody else's business.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from counterpoint.core.errors import InputError

_UNPACK: Final[Mapping[bytes, Callable[[bytes], bytes]]] = {
    b"\xfd7zXZ\x00": lzma.decompress,
    b"\x1f\x8b": gzip.decompress,
    b"BZh": bz2.decompress,
}
_PACKED: Final = re.compile(r"\.(xz|gz|bz2)$")
_IS_FILE: Final = re.compile(r"\.(pb|pbtxt|mlir|debug_options)(\.xz)?$")
_DAMAGE: Final = (
    OSError, EOFError, ValueError, RuntimeError, MemoryError, NotImplementedError,
    lzma.LZMAError, zlib.error, zipfile.BadZipFile,
)  # fmt: skip
_LOWERED: Final = "module.mlir"
_LARGEST: Final = 1 << 31
_DEPTH: Final = 4
"""RUN/rank0/xla/FILE: deeper lies nothing that is looked for."""


@dataclass(frozen=True, slots=True)
class Paper:
    """One file: `name` is without the ending of a packer, `place` says where it lies.

    XLA dumps what it was given as `module_0014.jit_step/module.mlir`: there the directory is part
    of the name.
    """

    name: str
    place: str
    size: int
    _load: Callable[[], bytes] = field(repr=False)

    def read(self) -> bytes:
        """The content, unpacked."""
        try:
            data = self._load()
            for magic, unpack in _UNPACK.items():
                if data.startswith(magic):
                    return unpack(data)
        except _DAMAGE as error:
            raise InputError(
                f"{self.place} can't be read",
                why=str(error) or type(error).__name__,
                next="copy it again from where it was made",
            ) from None
        return data


def papers(path: Path) -> list[Paper]:
    """The file at a path, or all files in the directory or zip there."""
    try:
        if path.is_dir():
            return list(_in_directory(path))
        if zipfile.is_zipfile(path):
            return _in_zip(path)
        return [_on_disk(path)]
    except _DAMAGE as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path} can't be read", why=reason, next="check the path") from None


def _in_directory(directory: Path, depth: int = _DEPTH) -> Iterator[Paper]:
    for entry in sorted(directory.iterdir()):
        if entry.is_file():
            yield _on_disk(entry)
        elif depth > 1 and entry.is_dir() and not entry.name.startswith("."):
            yield from _in_directory(entry, depth - 1)


def _on_disk(path: Path) -> Paper:
    name = _plain(path.name)
    whole = f"{path.parent.name}/{name}" if name == _LOWERED else name
    return Paper(whole, str(path), path.stat().st_size, path.read_bytes)


def _in_zip(path: Path) -> list[Paper]:
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
    return [
        Paper(
            _member_name(member.filename),
            f"{path}/{member.filename}",
            member.file_size,
            partial(_member, path, member.filename),
        )
        for member in members
    ]


def _member(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        if archive.getinfo(name).file_size > _LARGEST:
            raise ValueError("it claims to unpack to more than 2 GiB")
        return archive.read(name)


def _member_name(member: str) -> str:
    """In a bundle of several ranks, files that differ lie in a directory of the file's name."""
    parts = PurePosixPath(member).parts
    return next(map(_plain, filter(_IS_FILE.search, parts)), _plain(parts[-1]))


def _plain(name: str) -> str:
    return _PACKED.sub("", name)
