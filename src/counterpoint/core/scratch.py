"""Scratch directories that go with their process, even if that is killed.

A process holds a lock on its directory, and the system releases it whatever ends the process. So
the next one that needs scratch removes the directories that nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["ScratchDirectory", "scratch_directory"]

_PREFIX: Final = "counterpoint-scratch-"
"""Not the one of earlier versions, which hold no locks."""

_YOUNG_S: Final = 60.0
"""A younger directory may not be locked yet, or is being removed."""


class ScratchDirectory:
    """A directory for temporary files, until it is closed or this process ends."""

    def __init__(self, what: str) -> None:
        _sweep_once(tempfile.gettempdir())
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{what}-"))
        self._lock: int | None = os.open(self.path, os.O_RDONLY)
        with suppress(OSError):  # a file system without locks: the directory is just not swept
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """Remove the directory."""
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = None


@contextmanager
def scratch_directory(what: str) -> Generator[Path]:
    """Make a scratch directory for the duration of a block; `what` is part of its name."""
    directory = ScratchDirectory(what)
    try:
        yield directory.path
    finally:
        directory.close()


@cache
def _sweep_once(place: str) -> None:
    sweep(Path(place))


def sweep(place: Path, young_s: float = _YOUNG_S) -> None:
    """Remove scratch directories of this user that no process holds."""
    with suppress(OSError):
        for entry in os.scandir(place):
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    if about.st_uid == os.getuid() and time.time() - about.st_mtime > young_s:
                        _remove_unheld(entry.path)


def _remove_unheld(path: str) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(opened)
