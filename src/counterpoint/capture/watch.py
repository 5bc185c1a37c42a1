"""Standing by while ranks run: taking their output, keeping their limits, ending them together."""

from __future__ import annotations

import os
import selectors
import signal
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from counterpoint.capture.group import Group
from counterpoint.capture.output import LogFailure, Output
from counterpoint.runs.outcome import OutcomeKind

_TICK: Final = 0.1
_LOOK: Final = 1.0
"""How often what the agent writes is looked at, for a sign of life."""
_LINGER: Final = 2.0
"""What is left of a group gets so long after its process has ended, then half as long again."""

_ASK: Final = ((0.0, signal.SIGINT), (10.0, signal.SIGTERM), (15.0, signal.SIGKILL))
_TELL: Final = ((0.0, signal.SIGTERM), (5.0, signal.SIGKILL))
_DUMP: Final = ((0.0, signal.SIGABRT), (5.0, signal.SIGKILL))
"""Python's fault handler then says where it hung."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the ranks were ended by us."""

    kind: OutcomeKind
    detail: str
    signal: str | None = None
    because_of: int | None = None

    @property
    def schedule(self) -> tuple[tuple[float, int], ...]:
        """Signals, and after how many seconds."""
        if self.kind is OutcomeKind.HANG:
            return _DUMP
        return (
            _ASK
            if self.kind in (OutcomeKind.INTERRUPTED, OutcomeKind.TIMEOUT)
            and (self.because_of is None)
            else _TELL
        )


@dataclass(slots=True)
class Child:
    """A rank that was started here, and how it ended."""

    rank: int
    directory: Path
    group: Group
    outputs: tuple[Output, Output]
    open_outputs: int = 2
    ended_at: float | None = None
    status: tuple[int | None, int | None] | None = None
    stopped: Stop | None = None

    @property
    def failed(self) -> bool:
        """Whether it ended, and not well."""
        return self.status is not None and self.status != (0, None)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long ranks may take, and be silent."""

    timeout_s: float | None = None
    hang_after_s: float | None = None


@dataclass(slots=True)
class Interrupts:
    """Signals that ask us to end."""

    received: list[int] = field(default_factory=list[int])
    ignored: tuple[int, ...] = ()

    def note(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: the watch finds it in its next turn."""
        del frame
        self.received.append(number)

    def children_started(self) -> None:
        """Children have got the default; from here on we ignore what we ignored before."""
        for number in self.ignored:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def interrupts() -> Generator[Interrupts]:
    """Note SIGINT, SIGTERM and SIGHUP instead of dying of them; those ignored stay so.

    Children get the default for SIGINT even where we ignore it, as jobs in the background do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield Interrupts()
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    background = before[signal.SIGINT] is signal.SIG_IGN
    noted = Interrupts(ignored=(signal.SIGINT,) if background else ())
    for number, handler in before.items():
        if handler is not signal.SIG_IGN or number == signal.SIGINT:
            signal.signal(number, noted.note)
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Watch:
    """Runs until all ranks have ended, by themselves or by us."""

    def __init__(self, children: Sequence[Child], limits: Limits, noted: Interrupts) -> None:
        self._children = children
        self._limits = limits
        self._noted = noted
        self._began = self._life = time.monotonic()
        self._looked = 0.0
        self._written: int = -1
        self._stop: Stop | None = None
        self._stop_at = 0.0
        self._sent = 0
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Stand by. Afterwards each child has its status, and its group is no more."""
        with self._selector:
            for child in self._children:
                for output in child.outputs:
                    self._selector.register(output.source, selectors.EVENT_READ, (child, output))
            while any(child.status is None for child in self._children):
                self._pump()
                self._judge()
                self._reap()
                self._signal()
        self._judge()
        for child in self._children:
            self._attribute(child)

    def _pump(self) -> None:
        for key, _ in self._selector.select(_TICK):
            child, output = key.data
            try:
                more = output.pump()
            except LogFailure as failure:
                what = failure.failure.strerror or str(failure)
                self._end(Stop(OutcomeKind.DISK_FULL, f"what it prints can't be kept: {what}"))
                more = True
            self._life = time.monotonic()
            if not more:
                self._selector.unregister(output.source)
                child.open_outputs -= 1

    def _reap(self) -> None:
        for child in self._children:
            if child.status is not None or not child.group.has_ended():
                continue
            now = time.monotonic()
            if child.ended_at is None:
                child.ended_at, child.stopped = now, self._stop
            over = now - child.ended_at
            if child.group.has_members() or child.open_outputs:
                if over < _LINGER:
                    continue
                child.group.send(signal.SIGTERM)
                if over < 1.5 * _LINGER:
                    continue
            for output in child.outputs:
                if output.source in self._selector.get_map():
                    self._selector.unregister(output.source)
                output.close()
            child.status = child.group.reap()
            if child.failed and self._stop is None:
                detail = f"ended because rank {child.rank} had"
                self._end(Stop(OutcomeKind.INTERRUPTED, detail, because_of=child.rank))

    def _attribute(self, child: Child) -> None:
        """Schedulers send their signal to all: a rank may die of it before we hear of it."""
        stop = self._stop
        if child.stopped is None and stop is not None and stop.signal is not None:
            _, number = child.status or (None, None)
            if number is not None and signal.Signals(number).name == stop.signal:
                child.stopped = stop

    def _judge(self) -> None:
        """Is there a reason to end them?"""
        now = time.monotonic()
        if self._noted.received and (self._stop is None or self._stop.signal is None):
            name = signal.Signals(self._noted.received[0]).name
            self._end(Stop(OutcomeKind.INTERRUPTED, f"Counterpoint was sent {name}", signal=name))
        timeout, silence = self._limits.timeout_s, self._limits.hang_after_s
        if self._stop is None and timeout is not None and now - self._began > timeout:
            self._end(Stop(OutcomeKind.TIMEOUT, f"not done after {timeout:g} s"))
        if self._stop is None and silence is not None:
            self._look(now)
            if now - self._life > silence:
                self._end(Stop(OutcomeKind.HANG, f"no output and no step for {silence:g} s"))

    def _look(self, now: float) -> None:
        """What the agent writes down is a sign of life, too."""
        if now - self._looked < _LOOK:
            return
        self._looked = now
        written = sum(_size(child.directory / "agent") for child in self._children)
        if written != self._written:
            self._written, self._life = written, now

    def _end(self, stop: Stop) -> None:
        if self._stop is None or stop.signal is not None:
            self._stop, self._stop_at, self._sent = stop, time.monotonic(), 0

    def _signal(self) -> None:
        """Send what is due; a second Ctrl-C is an order, not a question."""
        if self._stop is None:
            return
        if len(self._noted.received) > 1:
            self._stop_at = float("-inf")
        for after, number in self._stop.schedule[self._sent :]:
            if time.monotonic() - self._stop_at < after:
                return
            self._sent += 1
            for child in self._children:
                if child.status is None:
                    child.group.send(number)


def _size(directory: Path) -> int:
    try:
        return sum(entry.stat().st_size for entry in os.scandir(directory))
    except OSError:
        return 0
