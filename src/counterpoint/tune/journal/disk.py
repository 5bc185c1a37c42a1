"""Disk: the few things a journal does to files, in one place, so that each can be made to fail."""

from __future__ import annotations

import os
from pathlib import Path


class Disk:
    """The real one."""

    def create(self, path: Path) -> int:
        """A new file; FileExistsError where there is one."""
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def open(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)

    def write(self, handle: int, data: bytes) -> int:
        """As much of it as the disk takes at once."""
        return os.write(handle, data)

    def sync(self, handle: int) -> None:
        os.fsync(handle)

    def sync_directory(self, path: Path) -> None:
        """A new file's name is on disk only when its directory is."""
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def cut(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def remove(self, path: Path) -> None:
        path.unlink()
