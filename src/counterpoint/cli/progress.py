"""Progress of a command on stderr.

    with Progress("reading trace.xplane.pb") as progress:
        ...
        progress.say("finding steps")

Work under a second stays silent. After that a terminal shows one line that is redrawn, and erased
at the end. A file or a pipe keeps every line, so it gets one after ten seconds and one every half
minute. A thread draws, so that the work need not call back; it ends with the block. If the
completed fraction is known, the line estimates the remaining time.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from shutil import get_terminal_size
from threading import Event, Thread
from typing import Self, TextIO

from counterpoint.core.printable import printable

WIPE = "\r\x1b[K"  # back to the start of the line, and clear it


_HOST = re.compile(r"\(host (\d+) of (\d+)\)$")
_TELLING = 0.02
"""Fraction of the work, and seconds spent on it, before the remaining time is estimated."""

_EARLY_S = 1.0
_MINUTES = 120.0


@dataclass(frozen=True, slots=True)
class LineTiming:
    """Seconds before the first line, and between lines."""

    first: float
    next: float


ON_TERMINAL = LineTiming(first=1.0, next=0.2)
IN_FILE = LineTiming(first=10.0, next=30.0)


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """An estimate of the remaining time of work of known size, from the time it took so far."""

    since: float = 0.0  # when the completed fraction was `first`
    first: float = 0.0
    share: float | None = None

    def at(self, share: float | None, now: float) -> TimeLeft:
        """Return the estimate at this completed fraction; a decrease means that new work began."""
        if share is None:
            return TimeLeft()
        if self.share is None or share < self.share:
            return TimeLeft(now, share, share)
        return replace(self, share=share)

    def text(self, now: float) -> str:
        """Return `, about 12 s to go`; empty if it is unknown or too early."""
        done = 0.0 if self.share is None else self.share - self.first
        if self.share is None or done < _TELLING or now - self.since < _EARLY_S:
            return ""
        left = (now - self.since) * (1 - self.share) / done
        time_left = f"{left:.0f} s" if left < _MINUTES else f"{left / 60:.0f} min"
        return f", about {time_left} to go"


class Progress:
    """Reports on stderr what is being done while a block runs."""

    def __init__(
        self,
        what: str,
        stream: TextIO | None = None,
        pace: LineTiming | None = None,
        listener: Callable[[str], None] | None = None,
    ) -> None:
        """Start with this; `listener` is told whatever is said, too."""
        self._what = printable(what)
        self._listener = listener
        self._time_left = TimeLeft()
        self._hosts: dict[str, float] = {}  # completed fraction of each
        self._stream = sys.stderr if stream is None else stream
        self._on_terminal = self._stream.isatty()
        self._pace = pace or (ON_TERMINAL if self._on_terminal else IN_FILE)
        self._finished = Event()
        self._drawer = Thread(target=self._draw, name="progress", daemon=True)

    def say(self, what: str, share: float | None = None) -> None:
        """Set what is being done, with the completed fraction if the work has a size."""
        self._time_left = self._time_left.at(share, time.monotonic())
        self._what = printable(what)
        if self._listener is not None:
            self._listener(self._what)

    def read(self, what: str, done: int, total: int) -> None:
        """Set how far `read` is with a file; several hosts have equal weight."""
        fraction = done / max(total, 1)
        number, count = found.groups() if (found := _HOST.search(what)) else ("1", "1")
        if fraction < self._hosts.get(number, 0.0):
            self._hosts.clear()  # another set of files
        self._hosts[number] = fraction
        share = min(sum(self._hosts.values()) / int(count), 1.0)
        self.say(f"reading {what.rpartition('/')[2]}, {fraction:.0%}", share)

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
        with suppress(OSError, ValueError):  # a closed stderr ends the output, not the work
            while not self._finished.wait(pause):
                now = time.monotonic()
                self._write(f"{self._what} ({now - began:.0f} s{self._time_left.text(now)})")
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
