"""Where outputs go: unused paths, and files and directories that appear complete or not at all.

A whole file is written under a hidden name beside its own and then takes that in one step of the
file system. Whatever ends the process before that leaves the old one as it was. The hidden file
stays behind a process that was killed; the next one that writes to the same name removes it, since
nobody holds its lock any more.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

from counterpoint.core.errors import UsageError

__all__ = ["refuse_url", "unused_path", "whole_directory", "whole_file", "write_whole"]

_PART: Final = ".part"
_YOUNG_S: Final = 60.0
"""A younger part may not be locked yet."""


_LONGEST_NUMBER: Final = 4  # digits of a number appended to a name; a date has more


def unused_path(path: Path) -> Path:
    """Return a path that does not exist: `before-2` for `before`, then `before-3`.

    For `.` and `/`, which name nothing that has others beside it, one in the working directory.
    """
    path = path if path.name else Path("counterpoint")
    stem, _, last = path.name.rpartition("-")
    again = bool(stem) and last.isdecimal() and len(last) < _LONGEST_NUMBER
    stem, first = (stem, int(last) + 1) if again else (path.name, 2)
    names = (path.with_name(f"{stem}-{number}") for number in count(first))
    return next(name for name in names if not name.exists())


def refuse_url(path: str | Path) -> None:
    """Refuse a URL as an output path; a Path has only one slash left of it."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+:)/+", str(path))
    if scheme and not Path(scheme[1]).is_dir():
        url = f"{scheme[1]}//{str(path)[scheme.end() :]}"
        raise UsageError(
            f"can't write {url}: URLs can be read, not written",
            next="write to a local path, and copy it from there",
        )


@contextmanager
def whole_file(path: Path, *, overwrite: bool, mode: int | None = None) -> Generator[Path]:
    """Yield the name to write a file under; it is renamed to `path` after the block.

    A file that is replaced keeps its mode, and a symbolic link to it stays. Without `overwrite`
    a FileExistsError is raised if there is a file by then, whoever wrote it.
    """
    with _part(path) as (place, part, held):
        held(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else mode))
        yield part
        if overwrite:
            if mode is None and place.exists():
                shutil.copymode(place, part)
            part.replace(place)
        else:
            _name_new(part, place)


@contextmanager
def whole_directory(path: Path, *, overwrite: bool) -> Generator[Path]:
    """Yield an empty directory to write to; it is renamed to `path` after the block.

    Without `overwrite` a FileExistsError is raised unless `path` is free or an empty directory.
    """
    with _part(path) as (place, part, held):
        part.mkdir()
        held(os.open(part, os.O_RDONLY))
        yield part
        if overwrite and place.exists():
            _exchange(part, place)  # the old one is removed under the part's name
        else:
            try:
                part.rename(place)
            except OSError as failure:
                if failure.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise FileExistsError(*_EXISTS, str(path)) from None
                raise


def write_whole(path: Path, content: bytes, *, overwrite: bool = True) -> None:
    """Write a file of this content, or leave the old one."""
    with whole_file(path, overwrite=overwrite) as part:
        part.write_bytes(content)


_EXISTS: Final = (errno.EEXIST, os.strerror(errno.EEXIST))


class _Held:
    """Keeps the lock on a part until it is closed."""

    def __init__(self) -> None:
        self._opened: int | None = None

    def __call__(self, opened: int) -> None:
        self._opened = opened
        with suppress(OSError):  # a file system without locks: nobody sweeps what is left
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        if self._opened is not None:
            os.close(self._opened)


@contextmanager
def _part(path: Path) -> Generator[tuple[Path, Path, _Held]]:
    place = path.resolve() if path.is_symlink() else path
    _sweep(place)
    part = place.with_name(f".{place.name}.{os.getpid()}-{time.monotonic_ns():x}{_PART}")
    held = _Held()
    try:
        yield place, part, held
    finally:
        _remove(part)
        held.release()


def _name_new(part: Path, path: Path) -> None:
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError(*_EXISTS, str(path)) from None
        part.replace(path)


_RENAME_EXCHANGE: Final = 2
_AT_FDCWD: Final = -100


def _exchange(part: Path, place: Path) -> None:
    """Let two directories swap their names, in one step where the file system can."""
    with suppress(ImportError, AttributeError, OSError):
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        names = os.fsencode(part), os.fsencode(place)
        failed = libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
        if not failed:
            return
    old = part.with_suffix(".old")
    place.rename(old)
    try:
        part.rename(place)
    except OSError:
        old.rename(place)
        raise
    _remove(old)


def _sweep(place: Path) -> None:
    """Remove the parts of processes that were killed while they wrote to this name."""
    with suppress(OSError):
        begin = f".{place.name}."
        for entry in os.scandir(place.parent):
            if entry.name.startswith(begin) and entry.name.endswith(_PART):
                with suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    if about.st_uid == os.getuid() and time.time() - about.st_mtime > _YOUNG_S:
                        _remove_unheld(Path(entry.path))


def _remove_unheld(part: Path) -> None:
    opened = os.open(part, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(part)
    finally:
        os.close(opened)


def _remove(part: Path) -> None:
    with suppress(OSError):
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)
