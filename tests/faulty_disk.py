"""A disk that fails at one chosen moment, or a process that dies there."""

from __future__ import annotations

import errno
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TypeVar

from counterpoint.tune.study.journal import Disk

T = TypeVar("T")


class Fault(Enum):
    FULL = "no space, nothing written"
    HALF_FULL = "no space, half of it written"
    FULL_FOR_GOOD = "no space from now on, half of it written"
    KILLED_BEFORE = "killed before"
    KILLED_HALFWAY = "killed with half of it written"
    KILLED_AFTER = "killed after"


class Killed(BaseException):
    """The process is no more: nothing that it would do after this happens."""


class FaultyDisk(Disk):
    """Fails at the operation with this number, counted from 0; -1: never."""

    def __init__(self, fault: Fault, at: int) -> None:
        self.done = 0
        self._fault = fault
        self._at = at
        self._dead = False
        self._full = False

    def create(self, path: Path) -> int:
        return self._at_risk(lambda: super(FaultyDisk, self).create(path))

    def open(self, path: Path) -> int:
        return self._at_risk(lambda: super(FaultyDisk, self).open(path))

    def write(self, handle: int, data: bytes) -> int:
        half = data[: len(data) // 2]
        return self._at_risk(
            lambda: super(FaultyDisk, self).write(handle, data),
            lambda: super(FaultyDisk, self).write(handle, half),
        )

    def sync(self, handle: int) -> None:
        self._at_risk(lambda: super(FaultyDisk, self).sync(handle))

    def sync_directory(self, path: Path) -> None:
        self._at_risk(lambda: super(FaultyDisk, self).sync_directory(path))

    def cut(self, handle: int, size: int) -> None:
        self._at_risk(lambda: super(FaultyDisk, self).cut(handle, size))

    def remove(self, path: Path) -> None:
        self._at_risk(lambda: super(FaultyDisk, self).remove(path))

    def _at_risk(self, whole: Callable[[], T], half: Callable[[], object] = lambda: None) -> T:
        if self._dead:
            raise Killed
        if self._full:
            raise OSError(errno.ENOSPC, "No space left on device")
        now = self.done == self._at
        self.done += 1
        if not now:
            return whole()
        if self._fault in (Fault.HALF_FULL, Fault.FULL_FOR_GOOD, Fault.KILLED_HALFWAY):
            half()
        if self._fault is Fault.KILLED_AFTER:
            whole()
        if self._fault in (Fault.FULL, Fault.HALF_FULL, Fault.FULL_FOR_GOOD):
            self._full = self._fault is Fault.FULL_FOR_GOOD
            raise OSError(errno.ENOSPC, "No space left on device")
        self._dead = True
        raise Killed
