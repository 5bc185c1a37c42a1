"""Files that an input names: which of them are read, and how.

A checked script can name any file, and its author may want to see the content of yours. So only
regular files of a moderate size are read, if they are beside the source or where the user allows
it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LARGEST: Final = 1 << 20
"""Maximum size in bytes of a file that an input names."""
_LINKS: Final = 40
"""Maximum number of consecutive links that a kernel follows."""
LARGEST_SOURCE: Final = 1 << 24
"""Maximum size in bytes of a file that the user names: notebooks contain pictures."""


@dataclass(frozen=True, slots=True)
class AllowedFiles:
    """The directories in which named files are read; `start` is where the process runs."""

    directories: tuple[Path, ...] = ()
    anywhere: bool = False
    start: Path = Path()

    def holds(self, path: Path) -> bool:
        """Return whether a file is in one of them, with all links resolved."""
        try:
            real = path.resolve()
        except (OSError, ValueError, RuntimeError):  # circular links, an invalid name
            return False
        return self.anywhere or any(
            real.is_relative_to(directory.resolve()) for directory in self.directories
        )

    def with_allowed(self, allowed: Iterable[Path]) -> AllowedFiles:
        """Return a reach that also includes directories that the user allows."""
        return AllowedFiles((*self.directories, *allowed), self.anywhere, self.start)

    def first(self, name: str) -> Path:
        """Return the path that the program itself opens."""
        return self.start / name

    def places(self, name: str) -> Iterator[Path]:
        """Yield paths where the file may be: where the process runs, or beside the source.

        For any other place, not even the existence of a file is revealed.
        """
        candidates = (self.first(name), *(directory / name for directory in self.directories))
        yield from (path for path in dict.fromkeys(candidates) if self.holds(path))

    def to_allow(self, name: str) -> Path:
        """Return the directory that a user has to allow, as far as the reach reveals it."""
        path = next(self._leading_out(name), self.first(name))
        return Path(os.path.normpath(path)).parent

    def _leading_out(self, name: str) -> Iterator[Path]:
        """Yield where a name leaves each directory by the links within it.

        Links outside are not followed: their targets must not be revealed.
        """
        for directory in self.directories:
            path = inside = directory.resolve()
            parts, links = [*reversed(Path(name).parts)], 0
            while parts and links < _LINKS:
                path = Path(os.path.normpath(path / parts.pop()))
                if not path.is_relative_to(inside):
                    yield path.joinpath(*reversed(parts))
                    break
                if path.is_symlink():
                    links += 1
                    parts += reversed(path.readlink().parts)
                    path = path.parent


ANYWHERE: Final = AllowedFiles(anywhere=True)
"""The reach for the user's own command line and environment, which are trusted."""


def beside(source: Path) -> AllowedFiles:
    """Return the reach of a source: its directory and what is below it."""
    return AllowedFiles((source.resolve().parent,))


def read_regular(path: Path, largest: int = LARGEST) -> bytes:
    """Return the bytes of a regular file; raise OSError if it is not one, or is too large.

    It is opened before it is examined, without blocking, so that a pipe in its place does no harm.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        kind = os.fstat(handle).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, "a directory")
        if not stat.S_ISREG(kind):
            raise OSError("not a regular file")
        with open(handle, "rb", closefd=False) as file:
            data = file.read(largest + 1)
    finally:
        os.close(handle)
    if len(data) > largest:
        raise OSError(f"larger than {largest >> 20} MiB")
    return data
