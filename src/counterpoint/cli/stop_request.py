"""Signals as requests to stop: the running trial ends, and nothing is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_ASKED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class StopRequest:
    """The signal by which the user requested a stop, if any."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._number = 0

    def __call__(self) -> bool:
        return self._number != 0

    @property
    def exit_code(self) -> int:
        """The exit code that a shell reports for a process ended by the signal."""
        return 128 + self._number

    def ask(self, number: int) -> None:
        """Record the signal; raise KeyboardInterrupt at the second one."""
        if self._number:
            raise KeyboardInterrupt
        self._number = number
        name = "interrupted" if number == signal.SIGINT else signal.Signals(number).name
        # In a thread: the signal may arrive while the drawing thread holds its lock.
        text = f"{name}: ending the running trial; once more stops at once"
        threading.Thread(target=self._note, args=(text,), daemon=True).start()


@contextmanager
def stop_on_signals(note: Callable[[str], None]) -> Generator[StopRequest]:
    """Turn signals into stop requests during the block; ignored ones (nohup) stay ignored.

    At the first signal the tuner ends the running trial, records that and reports what it knows;
    the second one interrupts it at once. Neither loses anything: all results are in the journal.
    """
    stop = StopRequest(note)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        stop.ask(number)

    before = {number: signal.getsignal(number) for number in _ASKED}
    handled = {
        number: handler for number, handler in before.items() if handler is not signal.SIG_IGN
    }
    for number in handled:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
