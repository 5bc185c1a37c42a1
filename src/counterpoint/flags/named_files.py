"""Files that an input names: which of them are read, and how.

A script that is checked can name any file, and whoever wrote it may want to see what is in yours.
So only regular files of a moderate size are read, where they lie beside the source or where the
user allows it.
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
"""The most bytes of a file that an input names."""
_LINKS: Final = 40
"""So many links in a row a kernel follows."""
LARGEST_SOURCE: Final = 1 << 24
"""The most bytes of a file that the user names: notebooks hold pictures."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The directories in which named files are read; `start` is where the process runs."""

    directories: tuple[Path, ...] = ()
    anywhere: bool = False
    start: Path = Path()

    def holds(self, path: Path) -> bool:
        """Whether a file lies in one of them, behind all links."""
        try:
            real = path.resolve()
        except (OSError, ValueError, RuntimeError):  # links in a circle, a name that is none
            return False
        return self.anywhere or any(real.is_relative_to(it.resolve()) for it in self.directories)

    def with_allowed(self, allowed: Iterable[Path]) -> Reach:
        """With directories that the user allows."""
        return Reach((*self.directories, *allowed), self.anywhere, self.start)

    def first(self, name: str) -> Path:
        """Where the program itself looks."""
        return self.start / name

    def places(self, name: str) -> Iterator[Path]:
        """Where the file may be looked for: where the process runs, which may be beside the source.

        Of any other place not even that is told whether something is there.
        """
        every = (self.first(name), *(directory / name for directory in self.directories))
        yield from (path for path in dict.fromkeys(every) if self.holds(path))

    def to_allow(self, name: str) -> Path:
        """The directory that a user has to allow, as far as that is seen from within the reach."""
        path = next(self._leading_out(name), self.first(name))
        return Path(os.path.normpath(path)).parent

    def _leading_out(self, name: str) -> Iterator[Path]:
        """The place outside of each directory that a name comes to by the links within it.

        Links out there are not followed: where they lead is nobody's business.
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


ANYWHERE: Final = Reach(anywhere=True)
"""For what the user says on the command line or in the environment: it is no stranger's input."""


def beside(source: Path) -> Reach:
    """The directory of a source, and what is below it."""
    return Reach((source.resolve().parent,))


def read_regular(path: Path, largest: int = LARGEST) -> bytes:
    """The bytes of a regular file; an OSError where it is none, or is too large.

    It is opened before it is looked at, and never waited for: a pipe in its place does no harm.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        kind = os.fstat(handle).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, "it is a directory")
        if not stat.S_ISREG(kind):
            raise OSError("it is no regular file")
        with open(handle, "rb", closefd=False) as file:
            data = file.read(largest + 1)
    finally:
        os.close(handle)
    if len(data) > largest:
        raise OSError(f"it is larger than {largest >> 20} MiB")
    return data
