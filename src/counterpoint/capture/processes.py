"""Processes of a run: groups, signals, and why ranks are ended."""

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

from counterpoint.runs import OutcomeKind


class Group:
    """A process in a session of its own. It is not reaped before the group has ended.

    So long its number belongs to nobody else, and a signal to the group can't meet strangers.
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
        """Where its stdout and its stderr come out."""
        out, err = self._process.stdout, self._process.stderr
        if out is None or err is None:
            raise RuntimeError("the process has no pipes")
        return out.fileno(), err.fileno()

    def has_ended(self) -> bool:
        """Whether the process itself has; its descendants may go on."""
        if not self._over:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            self._over = os.waitid(os.P_PID, self.pid, options) is not None
        return self._over

    def send(self, number: int) -> None:
        """Send a signal to all of the group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def has_members(self) -> bool:
        """Whether anybody of the group is left beside the process itself."""
        return any(_is_member(path, self.pid) for path in Path("/proc").glob("[0-9]*"))

    def reap(self) -> tuple[int | None, int | None]:
        """Exit code and signal of the process. Whoever is left of the group is killed."""
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


Schedule = tuple[tuple[float, int], ...]
"""Signals, and after how many seconds."""

_ASK: Final[Schedule] = ((0.0, signal.SIGINT), (10.0, signal.SIGTERM), (15.0, signal.SIGKILL))
_PASS_ON: Final[Schedule] = ((0.0, signal.SIGTERM),)
"""Trainers write a checkpoint then, and the scheduler knows for how long it lets them."""
_DUMP: Final[Schedule] = ((0.0, signal.SIGABRT), (5.0, signal.SIGKILL))
"""Python's fault handler then says where it hung."""
_ENOUGH: Final[Schedule] = ((0.0, signal.SIGINT), (5.0, signal.SIGTERM), (10.0, signal.SIGKILL))
"""SIGINT first: at SIGTERM trainers write checkpoints, and nobody wants one.

Not for long: of ranks that are in a collective with one that has left, none hears SIGINT.
"""
TELL: Final[Schedule] = ((0.0, signal.SIGTERM), (5.0, signal.SIGKILL))


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the ranks were ended by us."""

    kind: OutcomeKind
    detail: str
    signal: str | None = None
    because_of: int | None = None

    @property
    def is_patient(self) -> bool:
        """Whether the program may take as long as it wants to end."""
        return self.signal == signal.SIGTERM.name

    @property
    def is_asked(self) -> bool:
        """Whether it is the end that was asked for from the start: no failure, whatever follows."""
        return self.kind is OutcomeKind.OK

    @property
    def schedule(self) -> Schedule:
        """How they are ended."""
        if self.kind is OutcomeKind.HANG:
            return _DUMP
        if self.is_asked:
            return _ENOUGH
        if self.is_patient:
            return _PASS_ON
        asked = self.kind in (OutcomeKind.INTERRUPTED, OutcomeKind.TIMEOUT)
        return _ASK if asked and self.because_of is None else TELL
