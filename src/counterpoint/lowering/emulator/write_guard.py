"""Leaves files that were there before as they are, once results are zeros.

As soon as a program has been handed zeros, it would save them in the place of a checkpoint. So from
then on an old file that is opened for writing is a copy of it, which is thrown away at the end, and
one that is removed, replaced or cut short stays. A file is old if nothing has changed it since this
program began. What the program only adds to, or makes anew, is written, and reported.

Only what Python itself opens is seen: not the files of libraries in C++, nor of other processes. So
files in a throw-away layer of the kernel, which sees all of them, are left alone (`containment`).
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Given = Any  # to functions of Python: a file is a str, bytes, os.PathLike or a handle
Call = Callable[..., Any]

_EARLIER = 0.02  # the clock of files is a few milliseconds late
_WRITING = os.O_WRONLY | os.O_RDWR
_BY_HANDLE = ("dir_fd", "src_dir_fd", "dst_dir_fd")
_PATHS = ("src", "dst", "path")
_OWN = ("/dev/", "/proc/", "/sys/")


class WriteGuard:
    """Decides which files stay, and reports which are new."""

    def __init__(
        self, directory: Path, contained: Sequence[str], say: Callable[[dict[str, Any]], None]
    ) -> None:
        self.are_zeros = False  # what the program has computed
        self._began = time.time() - _EARLIER
        self._directory = str(directory)
        self._contained = tuple(place.rstrip("/") + "/" for place in contained)
        self._say = say
        self._copies: dict[str, str] = {}
        self._reported: set[str] = set()
        self._own = (*_OWN, self._directory, os.path.join(tempfile.gettempdir(), "tmp"))  # noqa: PTH118

    def install(self) -> None:
        """Take the place of what Python opens, replaces and removes files with."""
        opens = _Instead(builtins.open, self._open)
        builtins.open, io.open = opens, opens  # type: ignore[assignment]
        os.open = _Instead(os.open, self._low)  # type: ignore[assignment]
        for home, names, paths in (
            (os, ("rename", "replace"), 2),
            (os, ("remove", "unlink", "truncate"), 1),
            (shutil, ("rmtree",), 1),
        ):
            for name in names:
                setattr(home, name, _Instead(getattr(home, name), self._unless_old(paths)))

    def _open(
        self, real: Call, file: Given, mode: str = "r", *args: Given, **named: Given
    ) -> Given:
        if self.are_zeros and set(mode) & set("wx+"):
            file = self._instead_of(file, keep="w" not in mode)
        elif self._copies and not isinstance(file, int):
            file = self._copies.get(_absolute(file), file)
        return real(file, mode, *args, **named)

    def _low(self, real: Call, path: Given, flags: int, *args: Given, **named: Given) -> Given:
        writes = flags & _WRITING and not flags & os.O_APPEND
        if self.are_zeros and writes and named.get("dir_fd") is None:
            path = self._instead_of(path, keep=not flags & os.O_TRUNC)
        return real(path, flags, *args, **named)

    def _unless_old(self, paths: int) -> Call:
        def call(real: Call, *args: Given, **named: Given) -> Given:
            given = [*args[:paths], *(named[name] for name in _PATHS if name in named)]
            if self.are_zeros and all(named.get(name) is None for name in _BY_HANDLE):
                old = [path for path in given if self._is_old(path)]
                if old:
                    return self._report("kept", _absolute(old[-1]))
                if paths > 1:
                    self._report("wrote", _absolute(given[-1]))
            return real(*args, **named)

        return call

    def _instead_of(self, file: Given, *, keep: bool) -> Given:
        """A copy of a file that is old; else the file itself."""
        if isinstance(file, int):
            return file
        path = _absolute(file)
        if not self._is_old(file):
            self._report("wrote", path)
            return file
        self._report("kept", path)
        if path not in self._copies:
            handle, copy = tempfile.mkstemp(dir=self._directory, prefix="copy-")
            os.close(handle)
            if keep:
                shutil.copyfile(path, copy)
            self._copies[path] = copy
        return self._copies[path]

    def _is_old(self, file: Given) -> bool:
        """True of a file, or a directory with one, of before this program began."""
        if self._is_contained(file):
            return False
        try:
            about = os.stat(file)  # noqa: PTH116  a handle, too
        except (OSError, TypeError, ValueError):
            return False
        if stat.S_ISDIR(about.st_mode):
            return any(
                self._is_old(os.path.join(home, name))  # noqa: PTH118
                for home, _, names in os.walk(file)
                for name in names
            )
        return stat.S_ISREG(about.st_mode) and about.st_ctime < self._began

    def _is_contained(self, file: Given) -> bool:
        try:
            path = os.path.realpath(os.fsdecode(file))
        except (TypeError, ValueError):  # a handle
            return False
        return path.startswith(self._contained)

    def _report(self, event: str, path: str) -> None:
        if self._is_contained(path):
            return
        if path not in self._reported and not path.startswith(self._own):
            self._reported.add(path)
            self._say({"event": event, "name": path})


def _absolute(file: Given) -> str:
    return os.path.abspath(os.fsdecode(file))  # noqa: PTH100


class _Instead:
    """A function in place of one of Python's: like those it is no method of a class with it."""

    def __init__(self, real: Call, call: Call) -> None:
        self._real = real
        self._call = call

    def __call__(self, *args: Given, **named: Given) -> Given:
        return self._call(self._real, *args, **named)

    def __getattr__(self, name: str) -> Given:
        return getattr(self._real, name)
