"""Being asked to end by a batch system, `timeout` or a terminal that closes, as by Ctrl-C.

SIGTERM and SIGHUP would end this process on the spot, and leave its scratch directories. Here they
raise what Ctrl-C raises, so every block that tidies up does. `counterpoint run` has an answer of
its own to both while its program runs.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_ASKED: Final = (signal.SIGTERM, signal.SIGHUP)


class Ended(KeyboardInterrupt):
    """A signal asked us to end; it has not the default's effect, but the same exit code."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.name = signal.Signals(number).name
        self.exit_code = 128 + number


@contextmanager
def ends_tidily() -> Generator[None]:
    """Raise `Ended` at these signals; those that are ignored (nohup) or handled already stay so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in _ASKED if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        for each in ours:  # schedulers say it twice; what tidies up is not to be disturbed
            signal.signal(each, signal.SIG_IGN)
        raise Ended(number)

    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
