"""Being asked to end while a study is at work: once in order, twice at once.

The first Ctrl-C, SIGTERM or SIGHUP lets the tuner end the trial that runs, write that down and say
what it knows. The second one is what Ctrl-C is everywhere. Nothing is lost in either case.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_ASKED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """Whether somebody asked, and how."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._number = 0

    def __call__(self) -> bool:
        return self._number != 0

    @property
    def exit_code(self) -> int:
        """What a shell reports for a process that the signal ended."""
        return 128 + self._number

    def ask(self, number: int) -> None:
        """Remember it; the second time is no request."""
        if self._number:
            raise KeyboardInterrupt
        self._number = number
        name = "interrupted" if number == signal.SIGINT else signal.Signals(number).name
        # In a thread: a signal may come while the thread that draws holds its lock.
        text = f"{name}: ending in order; once more ends it at once"
        threading.Thread(target=self._note, args=(text,), daemon=True).start()


@contextmanager
def asked_to_stop(note: Callable[[str], None]) -> Generator[Stop]:
    """While the block runs, these signals ask; those that are ignored (nohup) stay so."""
    stop = Stop(note)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        stop.ask(number)

    before = {it: signal.getsignal(it) for it in _ASKED}
    ours = {number: it for number, it in before.items() if it is not signal.SIG_IGN}
    for number in ours:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
