"""Commands that end in every way a command can, for the tests of the command line."""

from __future__ import annotations

import signal
import tempfile

from counterpoint.core.errors import InputError


def greet(name: str, *, times: int = 1) -> None:
    """Greet someone."""
    print(*["hello", name] * times)


def count() -> int:
    """Find something, and say so by the exit code."""
    return 1


def refuse(path: str) -> None:
    """Fail as a reader fails."""
    raise InputError(
        f"{path} is empty", why="the capture was interrupted", next="record the profile again"
    )


def interrupt() -> None:
    """End as Ctrl-C ends it."""
    raise KeyboardInterrupt


def break_down() -> None:
    """Fail as a programmer fails."""
    raise ZeroDivisionError


def break_pipe() -> None:
    """Fail as one does whose child has died."""
    raise BrokenPipeError


def flood() -> None:
    """Print more than any pipe holds."""
    for _ in range(100_000):
        print("a line that nobody reads")


def be_sent(name: str) -> None:
    """Be sent a signal, and again while it tidies up."""
    number = signal.Signals[name]
    with tempfile.TemporaryDirectory():
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(number)
