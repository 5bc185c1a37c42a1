"""A stream that a command takes for a terminal."""

from __future__ import annotations

import io
import threading

PATIENCE_S = 60.0


class Terminal(io.StringIO):
    """A stream that calls itself a terminal, and tells when something is written."""

    def __init__(self, *, terminal: bool = True) -> None:
        super().__init__()
        self._terminal = terminal
        self._changed = threading.Condition()

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str, /) -> int:
        with self._changed:
            count = super().write(text)
            self._changed.notify_all()
        return count

    def wait_for(self, text: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: text in self.getvalue(), PATIENCE_S), text
