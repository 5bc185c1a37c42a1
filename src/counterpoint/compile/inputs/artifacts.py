"""Files that a compiler or JAX wrote, in a directory or a zip."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from counterpoint.core import InputError
from counterpoint.core.opening import read_input
from counterpoint.core.unpacking import PACKED_ENDING, member, open_archive, unpack

_IS_FILE: Final = re.compile(r"\.(pb|pbtxt|mlir|debug_options)(\.xz)?$")
_DAMAGE: Final = (OSError, ValueError)
_LOWERED: Final = "module.mlir"
_DEPTH: Final = 4
"""Directory depth of RUN/rank0/xla/FILE: relevant files are not deeper."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file: `name` lacks a compression suffix, `place` is its location.

    XLA dumps its input as `module_0014.jit_step/module.mlir`: there the directory is part of the
    name.
    """

    name: str
    place: str
    size: int
    _load: Callable[[], bytes] = field(repr=False)

    def read(self) -> bytes:
        """Return the content, decompressed."""
        try:
            return unpack(self._load(), self.place)
        except _DAMAGE as error:
            raise InputError(
                f"{self.place} can't be read",
                why=str(error) or type(error).__name__,
                next="copy it again from its source",
            ) from None


def artifacts(path: Path) -> list[Artifact]:
    """Return the file at a path, or all files in the directory or zip there."""
    try:
        if path.is_dir():
            return list(_in_directory(path))
        if path.is_file() and zipfile.is_zipfile(path):
            return _in_zip(path)
        return [_on_disk(path)]
    except _DAMAGE as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path} can't be read", why=reason, next="check the path") from None


def _in_directory(directory: Path, depth: int = _DEPTH) -> Iterator[Artifact]:
    for entry in sorted(directory.iterdir()):
        if entry.is_file():
            yield _on_disk(entry)
        elif depth > 1 and entry.is_dir() and not entry.name.startswith("."):
            yield from _in_directory(entry, depth - 1)


def _on_disk(path: Path) -> Artifact:
    name = _plain(path.name)
    whole = f"{path.parent.name}/{name}" if name == _LOWERED else name
    return Artifact(whole, str(path), path.stat().st_size, partial(read_input, path))


def _in_zip(path: Path) -> list[Artifact]:
    with open_archive(path, str(path)) as archive:
        members = [info for info in archive.infolist() if not info.is_dir()]
    return [
        Artifact(
            _member_name(info.filename),
            f"{path}/{info.filename}",
            info.file_size,
            partial(_member, path, info.filename),
        )
        for info in members
    ]


def _member(path: Path, name: str) -> bytes:
    with open_archive(path, str(path)) as archive:
        return member(archive, name, str(path))


def _member_name(member: str) -> str:
    """Return a member's name: that of its directory, where the ranks of a bundle differ."""
    parts = PurePosixPath(member).parts
    return next(map(_plain, filter(_IS_FILE.search, parts)), _plain(parts[-1]))


def _plain(name: str) -> str:
    return PACKED_ENDING.sub("", name)
