"""What a command says on stderr while it works.

    with Progress("reading trace.xplane.pb") as progress:
        ...
        progress.say("finding steps")

Work under a second stays silent. After that a terminal shows one line that is redrawn and wiped in
the end. A file or a pipe is read later, and keeps every line: it gets one after ten seconds and
every half minute. A thread draws, so that the work need not call back; it has ended when the block
has.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from shutil import get_terminal_size
from threading import Event, Thread
from typing import Self, TextIO

WIPE = "\r\x1b[K"  # back to the start of the line, and clear it


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds before the first word, and from one to the next."""

    first: float
    next: float


ON_TERMINAL = Pace(first=1.0, next=0.2)
IN_FILE = Pace(first=10.0, next=30.0)


class Progress:
    """Says what is being done while a block runs."""

    def __init__(self, what: str, stream: TextIO | None = None, pace: Pace | None = None) -> None:
        self._what = what
        self._stream = sys.stderr if stream is None else stream
        self._on_terminal = self._stream.isatty()
        self._pace = pace or (ON_TERMINAL if self._on_terminal else IN_FILE)
        self._finished = Event()
        self._drawer = Thread(target=self._draw, name="progress", daemon=True)

    def say(self, what: str) -> None:
        """From now on, this is being done."""
        self._what = what

    def __enter__(self) -> Self:
        self._drawer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finished.set()
        self._drawer.join()

    def _draw(self) -> None:
        began = time.monotonic()
        pause = self._pace.first
        drawn = False
        with suppress(OSError, ValueError):  # a stderr that is gone stops the talk, not the work
            while not self._finished.wait(pause):
                self._write(f"{self._what} ({time.monotonic() - began:.0f} s)")
                pause, drawn = self._pace.next, True
            if drawn and self._on_terminal:
                self._stream.write(WIPE)
                self._stream.flush()

    def _write(self, line: str) -> None:
        if self._on_terminal:
            self._stream.write(WIPE + line[: get_terminal_size().columns - 1])
        else:
            self._stream.write(line + "\n")
        self._stream.flush()
