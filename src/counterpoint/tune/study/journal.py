"""Journal: the file that holds a study. Records are appended and synced one by one.

One process writes to it at a time, under a file lock that ends with the process. A failed write is
undone by truncating the file; if that fails too, the journal accepts no more records, so only the
last line can be incomplete.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from counterpoint.core import InputError, UsageError, WriteError, unused_path
from counterpoint.core.opening import read_input
from counterpoint.tune.study.lines import (
    DamagedLine,
    JournalContents,
    NewerFormat,
    line_of,
    read_lines,
)
from counterpoint.tune.study.records import Record, StudyBegan

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Disk:
    """All file operations of a journal, so that tests can make each one fail."""

    def create(self, path: Path) -> int:
        """Create a new file; raise FileExistsError if it exists."""
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def open(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)

    def write(self, handle: int, data: bytes) -> int:
        """Write as much of the data as the disk takes at once."""
        return os.write(handle, data)

    def sync(self, handle: int) -> None:
        os.fsync(handle)

    def sync_directory(self, path: Path) -> None:
        """Sync the directory; only then is a new file's name on disk."""
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def cut(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def remove(self, path: Path) -> None:
        path.unlink()


_REAL: Final = Disk()


class Unwritable(WriteError):
    """The journal could not write a record; its previous records are intact."""

    def __init__(self, path: Path, failure: OSError) -> None:
        super().__init__(
            path,
            failure,
            next="free some space, and repeat the command to continue"
            if failure.errno in _FULL
            else "fix that, and repeat the command to continue",
        )
        self.why = "all earlier records are intact; the study stops here"


class Journal:
    """An open journal, locked against other writers."""

    def __init__(self, path: Path, handle: int, read: JournalContents, disk: Disk) -> None:
        self.path = path
        self.records = read.records
        """The records in it when it was opened."""
        self._handle = handle
        self._size = read.size
        self._number = len(read.records)
        self._disk = disk
        self._broken: OSError | None = None

    @classmethod
    def create(cls, path: Path, first: StudyBegan, disk: Disk = _REAL) -> Self:
        """Create a journal. Raises FileExistsError if it exists."""
        handle = disk.create(path)
        try:
            _lock(handle, path)
            journal = cls(path, handle, JournalContents((), 0), disk)
            journal.append(first)
            disk.sync_directory(path.parent)
        except BaseException:
            os.close(handle)
            with suppress(OSError):
                disk.remove(path)
            raise
        journal.records = (first,)
        return journal

    @classmethod
    def open(cls, path: Path, disk: Disk = _REAL) -> Self:
        """Open a journal to continue it; an incomplete last record is removed."""
        try:
            handle = disk.open(path)
        except OSError as failure:
            raise _unreadable(path, failure) from None
        try:
            _lock(handle, path)
            read = read_journal(path)
            journal = cls(path, handle, read, disk)
            if os.fstat(handle).st_size > read.size:
                journal._cut(raising=True)
        except BaseException:
            os.close(handle)
            raise
        return journal

    def append(self, record: Record) -> None:
        """Write a record to disk, and return once it is synced. Raises Unwritable on failure."""
        if self._broken is not None:
            raise Unwritable(self.path, self._broken)
        line = line_of(record, self._number)
        try:
            self._write(line)
            self._disk.sync(self._handle)
        except OSError as failure:
            self._cut(raising=False)
            raise Unwritable(self.path, failure) from None
        self._size += len(line)
        self._number += 1

    def close(self) -> None:
        """Close the file and release the lock."""
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        while line:
            line = line[self._disk.write(self._handle, line) :]

    def _cut(self, *, raising: bool) -> None:
        """Truncate the file to the last complete record."""
        try:
            self._disk.cut(self._handle, self._size)
            self._disk.sync(self._handle)
        except OSError as failure:
            self._broken = failure
            if raising:
                raise Unwritable(self.path, failure) from None


def read_journal(path: Path) -> JournalContents:
    """Return the records of a journal, even while another process writes to it."""
    try:
        data = read_input(path)
    except OSError as failure:
        raise _unreadable(path, failure) from None
    try:
        read = read_lines(data)
    except UsageError as error:
        raise InputError(
            f"{path}: {error.what}",
            why=error.why,
            next="the journal was changed by hand: start a new study",
        ) from None
    except DamagedLine as error:
        raise InputError(
            f"{path}: damaged: {error}",
            why="a tuner that dies leaves at most its last line incomplete; this is other damage",
            next=begin_anew(path),
        ) from None
    except NewerFormat as error:
        raise InputError(
            f"{path}: {error}",
            why="a newer Counterpoint wrote it",
            next="pip install --upgrade counterpoint",
        ) from None
    if read.records and not isinstance(read.records[0], StudyBegan):
        raise InputError(f"{path}: its first record is not StudyBegan", next=begin_anew(path))
    return read


def begin_anew(path: Path) -> str:
    """Return the next step where a journal is of no use; whoever reads it may write nothing."""
    return f"begin a new study, with -o {shlex.quote(str(unused_path(path.parent)))}"


def _lock(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(
            f"{path.parent}: another tune is running there",
            why="only one process at a time may write to a study",
            next=f"counterpoint tune show {shlex.quote(str(path.parent))}",
        ) from None
    except OSError as failure:
        if failure.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL):
            raise
        # On a file system without locks, users must keep two tuners apart themselves.


def _unreadable(path: Path, failure: OSError) -> InputError:
    if isinstance(failure, FileNotFoundError):
        return InputError(
            f"{path.parent} is not a study: {path.name} is missing",
            next="counterpoint tune -o DIRECTORY -- python train.py",
        )
    return InputError(f"{path}: can't be read: {failure.strerror or failure}")
