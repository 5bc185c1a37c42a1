"""Signals to us: those that ask us to end, those that are for the program, and Ctrl-Z."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PASSED: Final = (signal.SIGUSR1, signal.SIGUSR2)
"""Schedulers and people tell trainers with them to write a checkpoint."""
_SAME: Final = 1.0
"""Schedulers may send SIGTERM to us both directly and by our parent: that is one, not two."""


@dataclass(slots=True)
class Interrupts:
    """What we were sent, until the watch looks at it in its next turn."""

    received: list[int] = field(default_factory=list[int])
    """Those that ask us to end."""
    passing: list[int] = field(default_factory=list[int])
    """Those that are for the program."""
    pause: bool = False
    ignored: tuple[int, ...] = ()
    termed_at: float = float("-inf")

    def note(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal that asks us to end."""
        del frame
        if number == signal.SIGTERM:
            before, self.termed_at = self.termed_at, time.monotonic()
            if self.termed_at - before < _SAME:
                return
        self.received.append(number)

    def note_passing(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal that is for the program."""
        del frame
        self.passing.append(number)

    def note_pause(self, number: int, frame: FrameType | None) -> None:
        """Handle Ctrl-Z."""
        del number, frame
        self.pause = True

    def children_started(self) -> None:
        """Children have got the default; from here on we ignore what we ignored before."""
        for number in self.ignored:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def interrupts() -> Generator[Interrupts]:
    """Note signals instead of dying of them; those ignored stay so.

    Children get the default for SIGINT even where we ignore it, as jobs in the background do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield Interrupts()
        return
    numbers = (*_ENDING, *_PASSED, signal.SIGTSTP)
    before = {number: signal.getsignal(number) for number in numbers}
    background = before[signal.SIGINT] is signal.SIG_IGN
    noted = Interrupts(ignored=(signal.SIGINT,) if background else ())
    for number, handler in before.items():
        if handler is signal.SIG_IGN and number != signal.SIGINT:
            continue
        if number == signal.SIGTSTP:
            signal.signal(number, noted.note_pause)
        else:
            signal.signal(number, noted.note_passing if number in _PASSED else noted.note)
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
