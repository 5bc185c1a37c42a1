"""Supervises running ranks: reads their output, enforces limits, ends them together."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from counterpoint.capture.output import Output
from counterpoint.capture.processes import TERMINATE_SCHEDULE, Interrupts, ProcessGroup, StopReason
from counterpoint.capture.steps import StepGoal
from counterpoint.runs.outcomes import OutcomeKind

_TICK: Final = 0.1
_LOOK: Final = 1.0
"""Seconds between checks of the agent's files for a sign of life."""
_LINGER: Final = 2.0
"""Seconds for the rest of a group after its process has ended, then half as long again."""
_ECHO: Final = 0.5
"""Seconds for a scheduler's SIGTERM to reach us after it has ended a rank."""
_TERMINATED: Final = ((None, signal.SIGTERM), (128 + signal.SIGTERM, None))


@dataclass(slots=True)
class RankProcess:
    """A rank that was started here, and how it ended."""

    rank: int
    directory: Path
    group: ProcessGroup
    outputs: tuple[Output, Output]
    open_outputs: int = 2
    ended_at: float | None = None
    seen_at: float = 0.0  # when others of its group were last seen
    status: tuple[int | None, int | None] | None = None
    stopped: StopReason | None = None

    @property
    def failed(self) -> bool:
        """True if it ended unsuccessfully."""
        as_requested = self.stopped is not None and self.stopped.is_requested
        return self.status is not None and self.status != (0, None) and not as_requested


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits on the time and the silence of ranks, and the steps after which they are ended."""

    timeout_s: float | None = None
    hang_after_s: float | None = None
    goal: StepGoal | None = None


class RankSupervisor:
    """Runs until all ranks have ended, by themselves or by us."""

    def __init__(
        self, children: Sequence[RankProcess], limits: RunLimits, noted: Interrupts
    ) -> None:
        self._children = children
        self._limits = limits
        self._noted = noted
        self._began = self._life = time.monotonic()
        self._looked = self._counted = 0.0
        self._written: int = -1
        self._stop: StopReason | None = None
        self._stop_at = 0.0
        self._sent = 0
        self._orders = 1
        self._hurried = False
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Supervise until each child has its status and its group is gone."""
        with self._selector:
            for child in self._children:
                for output in child.outputs:
                    self._selector.register(output.source, selectors.EVENT_READ, (child, output))
            while any(child.status is None for child in self._children):
                self._pump()
                self._pass_on()
                self._judge()
                self._reap()
                self._signal()
        self._judge()
        for child in self._children:
            self._attribute(child)

    def _pump(self) -> None:
        for key, _ in self._selector.select(_TICK):
            child, output = key.data
            more = output.pump()
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
            members = child.group.has_members()
            # Output of the group's last process is still in the pipe when it has gone.
            over = now - (child.ended_at if members else max(child.ended_at, child.seen_at))
            child.seen_at = now if members else child.seen_at
            if members or child.open_outputs:
                if over < _LINGER or (members and self._waits):
                    continue
                child.group.send(signal.SIGTERM)
                if over < 1.5 * _LINGER:
                    continue
            for output in child.outputs:
                if output.source in self._selector.get_map():
                    self._selector.unregister(output.source)
                output.close()
            child.status = child.group.reap()
            self._excuse(child)
            self._end_the_others(child)

    def _end_the_others(self, child: RankProcess) -> None:
        """End the other ranks if this one failed by itself."""
        if child.status in _TERMINATED and self._stop is None:
            self._await_signal()
        if child.failed and self._stop is None:
            detail = f"ended because rank {child.rank} failed"
            self._end(StopReason(OutcomeKind.INTERRUPTED, detail, because_of=child.rank))

    def _await_signal(self) -> None:
        """Wait a moment for the signal that ended a rank: its sender may have sent us one, too."""
        until = time.monotonic() + _ECHO
        while not self._noted.received and time.monotonic() < until:
            self._pump()
        self._judge()

    def _excuse(self, child: RankProcess) -> None:
        """Excuse a rank that died because others ended before we had counted its steps."""
        goal = self._limits.goal
        if child.failed and child.stopped is None and goal is not None and goal.is_near():
            child.stopped = replace(goal.stop, because_of=child.rank)
            self._end(child.stopped)

    def _attribute(self, child: RankProcess) -> None:
        """Attribute a death to a scheduler's signal, which a rank may receive before we do."""
        stop = self._stop
        if child.stopped is None and stop is not None and stop.signal is not None:
            number = signal.Signals[stop.signal]
            if child.status in ((None, number), (128 + number, None)):
                child.stopped = stop

    def _judge(self) -> None:
        """End the ranks if there is a reason."""
        now = time.monotonic()
        if self._noted.received and self._may_interrupt(self._noted.received[0]):
            name = signal.Signals(self._noted.received[0]).name
            self._end(
                StopReason(OutcomeKind.INTERRUPTED, f"Counterpoint received {name}", signal=name)
            )
        goal = self._limits.goal
        if self._stop is None and goal is not None and now - self._counted >= _LOOK:
            self._counted = now
            if goal.is_reached():
                self._end(goal.stop)
        timeout, silence = self._limits.timeout_s, self._limits.hang_after_s
        if self._stop is None and timeout is not None and now - self._began > timeout:
            self._end(StopReason(OutcomeKind.TIMEOUT, f"not finished after {timeout:g} s"))
        if self._stop is None and silence is not None:
            self._look(now)
            if now - self._life > silence:
                self._end(StopReason(OutcomeKind.HANG, f"no output and no step for {silence:g} s"))

    def _may_interrupt(self, number: int) -> bool:
        """Return whether to act on a signal: ranks already ending get no extra time for SIGTERM."""
        return self._stop is None or (self._stop.signal is None and number != signal.SIGTERM)

    def _look(self, now: float) -> None:
        """Count the agent's writes as a sign of life, too."""
        if now - self._looked < _LOOK:
            return
        self._looked = now
        written = sum(_size(child.directory / "agent") for child in self._children)
        if written != self._written:
            self._written, self._life = written, now

    def _end(self, stop: StopReason) -> None:
        if self._stop is None or stop.signal is not None:
            self._stop, self._stop_at, self._sent = stop, time.monotonic(), 0

    @property
    def _waits(self) -> bool:
        """True if the program was asked to end, and may take its time."""
        return self._stop is not None and self._stop.is_patient and not self._hurried

    def _signal(self) -> None:
        """Send the signals that are due."""
        if self._stop is None:
            return
        self._hurry()
        schedule = TERMINATE_SCHEDULE if self._hurried else self._stop.schedule
        for after, number in schedule[self._sent :]:
            if time.monotonic() - self._stop_at < after:
                return
            self._sent += 1
            self._send(number)

    def _hurry(self) -> None:
        """End the ranks at once after a second Ctrl-C; after SIGTERM, after a third."""
        if len(self._noted.received) <= self._orders:
            return
        self._orders = len(self._noted.received)
        if self._waits:
            self._hurried, self._stop_at, self._sent = True, time.monotonic(), 0
        else:
            self._stop_at = float("-inf")

    def _pass_on(self) -> None:
        """Pass signals to the program; on Ctrl-Z stop it, and then us."""
        while self._noted.passing:
            self._send(self._noted.passing.pop(0))
        if not self._noted.pause:
            return
        self._noted.pause = False
        began = time.monotonic()
        self._send(signal.SIGSTOP)  # SIGTSTP does nothing in a session without a terminal
        os.kill(os.getpid(), signal.SIGSTOP)
        self._send(signal.SIGCONT)  # we have been continued
        away = time.monotonic() - began
        self._began, self._life = self._began + away, self._life + away
        self._stop_at += away

    def _send(self, number: int) -> None:
        for child in self._children:
            if child.status is None:
                child.group.send(number)


def _size(directory: Path) -> int:
    try:
        return sum(entry.stat().st_size for entry in os.scandir(directory))
    except OSError:
        return 0
