"""One profile per rank: the first of its compiling processes takes it.

A record lock on a file: the kernel drops it with the process, so a helper that ends unprofiled
leaves it to the next process; once a profile exists, the file says so and no other is taken.
"""

from __future__ import annotations

import os
from pathlib import Path

_DONE = b"done"


class ProfileClaim:
    """The right to profile for this rank."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._mine = False

    def take(self) -> bool:
        """Try to take it; return True from the first success on."""
        if not self._mine:
            self._mine = self._try()
        return self._mine

    def _try(self) -> bool:
        import fcntl

        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        if os.pread(self._file, len(_DONE), 0) == _DONE:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
            return False
        self._say(b"held by ")
        return True

    def use_up(self) -> None:
        """Record that the profile exists."""
        self._say(_DONE + b" by ")

    def _say(self, what: bytes) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, what + str(os.getpid()).encode() + b"\n", 0)

    @property
    def holder(self) -> str:
        """The holder, in words."""
        words = self._words()
        return f"process {words[-1]}" if words else "another process"

    @property
    def used_up(self) -> bool:
        """True if a profile exists, of this process or of another."""
        return self._words()[:1] == [_DONE.decode()]

    def _words(self) -> list[str]:
        try:
            return self._path.read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return []
