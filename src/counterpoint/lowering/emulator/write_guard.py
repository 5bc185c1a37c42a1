"""Protects existing files once results are zeros.

As soon as a program has received zeros, it would save them in place of a checkpoint. So from then
on an old file that is opened for writing is replaced by a copy, which is discarded at the end, and
one that is removed, replaced or truncated stays. A file is old if nothing has changed it since this
program began. New files, and additions to old ones, are written, and reported.

Only files that Python itself opens are covered: not those of libraries in C++, nor of other
processes. Files on a temporary layer of the kernel, which covers all of them, are left alone
(`containment`).
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

Given = Any  # arguments of Python's functions: a file is a str, bytes, os.PathLike or a handle
Call = Callable[..., Any]

_EARLIER = 0.02  # file times lag a few milliseconds behind
_WRITING = os.O_WRONLY | os.O_RDWR
_BY_HANDLE = ("dir_fd", "src_dir_fd", "dst_dir_fd")
_PATHS = ("src", "dst", "path")
_OWN = ("/dev/", "/proc/", "/sys/")


class WriteGuard:
    """Decides which files are protected, and reports new ones."""

    def __init__(
        self, directory: Path, contained: Sequence[str], say: Callable[[dict[str, Any]], None]
    ) -> None:
        self.are_zeros = False  # True once the program's results are zeros
        self._began = time.time() - _EARLIER
        self._directory = str(directory)
        self._contained = tuple(place.rstrip("/") + "/" for place in contained)
        self._say = say
        self._copies: dict[str, str] = {}
        self._reported: set[str] = set()
        self._own = (*_OWN, self._directory, os.path.join(tempfile.gettempdir(), "tmp"))  # noqa: PTH118

    def install(self) -> None:
        """Replace Python's functions that open, replace and remove files."""
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
        """Return a copy of an old file; else the file itself."""
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
        """Return whether a file, or one in a directory, existed before this program began."""
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
    """A callable in place of one of Python's: like those it does not become a bound method."""

    def __init__(self, real: Call, call: Call) -> None:
        self._real = real
        self._call = call

    def __call__(self, *args: Given, **named: Given) -> Given:
        return self._call(self._real, *args, **named)

    def __getattr__(self, name: str) -> Given:
        return getattr(self._real, name)
