"""Processes of a run: groups, signals, and reasons for ending ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from counterpoint.runs.outcomes import OutcomeKind


class ProcessGroup:
    """A process in its own session, not reaped before the group has ended.

    Until then its number is not reused, and a signal to the group can't reach other processes.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - the user's own command
            command,
            env=environment,
            stdin=subprocess.DEVNULL if os.isatty(0) else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self.pid = self._process.pid
        self._over = False

    @property
    def pipes(self) -> tuple[int, int]:
        """File descriptors of its stdout and stderr."""
        out, err = self._process.stdout, self._process.stderr
        if out is None or err is None:
            raise RuntimeError("the process has no pipes")
        return out.fileno(), err.fileno()

    def has_ended(self) -> bool:
        """Return whether the process itself has ended; its descendants may go on."""
        if not self._over:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            self._over = os.waitid(os.P_PID, self.pid, options) is not None
        return self._over

    def send(self, number: int) -> None:
        """Send a signal to the whole group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def has_members(self) -> bool:
        """Return whether the group has members besides the process itself."""
        return any(_is_member(path, self.pid) for path in Path("/proc").glob("[0-9]*"))

    def reap(self) -> tuple[int | None, int | None]:
        """Return exit code and signal of the process, after killing the rest of the group."""
        self.send(signal.SIGKILL)
        status = self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        return (status, None) if status >= 0 else (None, -status)


def _is_member(path: Path, group: int) -> bool:
    try:
        state, _, member_of = (
            (path / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
        )
    except (OSError, ValueError):
        return False
    return int(member_of) == group and path.name != str(group) and state != "Z"


_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_PASSED: Final = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals by which schedulers and people ask trainers to write a checkpoint."""
_SAME: Final = 1.0
"""Schedulers may send SIGTERM to us both directly and through our parent: that counts once."""


@dataclass(slots=True)
class Interrupts:
    """Received signals, until the watch handles them in its next iteration."""

    received: list[int] = field(default_factory=list[int])
    """Signals that ask us to end."""
    passing: list[int] = field(default_factory=list[int])
    """Signals for the program."""
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
        """Handle a signal for the program."""
        del frame
        self.passing.append(number)

    def note_pause(self, number: int, frame: FrameType | None) -> None:
        """Handle Ctrl-Z."""
        del number, frame
        self.pause = True

    def children_started(self) -> None:
        """Ignore again the signals ignored before; children have received the default."""
        for number in self.ignored:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def interrupts() -> Generator[Interrupts]:
    """Record signals instead of dying from them; ignored ones stay ignored.

    Children get the default for SIGINT even if we ignore it, as background jobs do.
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


SignalSchedule = tuple[tuple[float, int], ...]
"""Signals, and after how many seconds to send them."""

_ASK: Final[SignalSchedule] = ((0.0, signal.SIGINT), (10.0, signal.SIGTERM), (15.0, signal.SIGKILL))
_PASS_ON: Final[SignalSchedule] = ((0.0, signal.SIGTERM),)
"""Trainers then write a checkpoint, and the scheduler limits the time for it."""
_DUMP: Final[SignalSchedule] = ((0.0, signal.SIGABRT), (5.0, signal.SIGKILL))
"""Python's fault handler then shows where it hung."""
_ENOUGH: Final[SignalSchedule] = (
    (0.0, signal.SIGINT),
    (5.0, signal.SIGTERM),
    (10.0, signal.SIGKILL),
)
"""SIGINT first: at SIGTERM trainers write checkpoints, which are not wanted here.

The wait is short: ranks in a collective with one that has left do not handle SIGINT.
"""
TERMINATE_SCHEDULE: Final[SignalSchedule] = ((0.0, signal.SIGTERM), (5.0, signal.SIGKILL))


@dataclass(frozen=True, slots=True)
class StopReason:
    """The reason for which Counterpoint ended the ranks."""

    kind: OutcomeKind
    detail: str
    signal: str | None = None
    because_of: int | None = None

    @property
    def is_patient(self) -> bool:
        """True if the program may take as long as it wants to end."""
        return self.signal == signal.SIGTERM.name

    @property
    def is_requested(self) -> bool:
        """True if this end was requested from the start: not a failure, whatever follows."""
        return self.kind is OutcomeKind.OK

    @property
    def schedule(self) -> SignalSchedule:
        """The signals that end the ranks."""
        if self.kind is OutcomeKind.HANG:
            return _DUMP
        if self.is_requested:
            return _ENOUGH
        if self.is_patient:
            return _PASS_ON
        is_request = self.kind in (OutcomeKind.INTERRUPTED, OutcomeKind.TIMEOUT)
        return _ASK if is_request and self.because_of is None else TERMINATE_SCHEDULE
