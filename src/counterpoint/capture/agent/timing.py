"""Decides when the window opens: at a step, or once compilation is over, on all processes alike.

Compilation is considered over after a few steps without a compile, or some time without one.

Processes of one job take their steps together, but fall quiet at different moments: one compiles
longer than another. Profiles of different steps could not be compared. So the first process to be
quiet names a step a little ahead, in a file beside the ranks' directories, and all keep to it. One
that reads it too late opens at once; `start_step` in its process file shows that.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from .steps import StepCounter

_AHEAD_S = 2.0  # the others check every fifth of a second
_PACE = 4  # steps needed to measure their pace: the first compiles
_FASTEST_S = 1e-3  # faster steps are only queued, to be executed later


class Timing(Protocol):
    """Tells a recorder when to open."""

    def step_due(self, turn: int) -> bool: ...
    def time_due(self) -> bool: ...


class AtStep:
    """Opens before the step with this number.

    If no step is ever marked, it opens once `unseen` returns True.

    It is counted in this process, from 0. `passed` tells whether the program's own numbers began at
    or below it and have reached it earlier.
    """

    def __init__(
        self,
        start_step: int,
        unseen: Callable[[], bool] = lambda: False,
        passed: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._start_step = start_step
        self._unseen = unseen
        self._passed = passed

    def step_due(self, turn: int) -> bool:
        return turn >= self._start_step or self._passed(self._start_step)

    def time_due(self) -> bool:
        return self._unseen()


class CalmSteps:
    """Counts successive steps without a compile: `enough` of them open the window."""

    def __init__(self, compiled: Callable[[], int], enough: int | None) -> None:
        self._compiled = compiled
        self._enough = enough
        self._last = (-1, -1)
        self._steps = 0

    def is_over(self, turn: int) -> bool:
        """Return whether enough of them have passed; the step `turn` is about to begin."""
        last, self._last = self._last, (turn, self._compiled())
        follows = last == (turn - 1, self._last[1])
        self._steps = self._steps + 1 if follows else 0
        return self._enough is not None and self._steps >= self._enough


class WhenQuiet:
    """Opens before the next step, or now if no step is expected."""

    def __init__(
        self,
        quiet: Callable[[], bool],
        expecting_steps: Callable[[], bool],
        steps: StepCounter,
        meeting: Callable[[], WindowAgreement | None],
        calm: CalmSteps | None = None,
    ) -> None:
        self._quiet = quiet
        self._expecting_steps = expecting_steps
        self._steps = steps
        self._meeting = meeting  # None in a job of one process, and until that is known
        self._calm = calm
        self._stepped_s = math.nan
        self._shortest_s = math.inf

    def step_due(self, turn: int) -> bool:
        self._note_pace()
        over = self._calm is not None and self._calm.is_over(turn)
        over = over or self._quiet()
        meeting = self._meeting()
        if meeting is None:
            return over
        if meeting.step is None and turn >= _PACE and over:
            meeting.propose_step(turn + self._some_steps())
        return meeting.step is not None and turn >= meeting.step

    def _note_pace(self) -> None:
        """Measure the pace of executions, which `StepCounter` does not know."""
        now_s = time.monotonic()
        if self._stepped_s == self._stepped_s:
            self._shortest_s = min(self._shortest_s, now_s - self._stepped_s)
        self._stepped_s = now_s

    def _some_steps(self) -> int:
        """Return as many steps as fit into the time that the others need, at the fastest pace."""
        marked_s = self._steps.shortest_s
        pace_s = marked_s if math.isfinite(marked_s) else max(self._shortest_s, _FASTEST_S)
        return 1 + math.ceil(_AHEAD_S / max(pace_s, 1e-6))

    def time_due(self) -> bool:
        meeting = self._meeting()
        if meeting is not None:
            meeting.look()
        if self._expecting_steps():
            return False
        if meeting is None:
            return self._quiet()
        if meeting.time_s is None and self._quiet():
            meeting.propose_time(time.time() + _AHEAD_S)
        return meeting.time_s is not None and time.time() >= meeting.time_s


class WindowAgreement:
    """The agreement of the processes of a job: a step, or a wall-clock time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.step: int | None = None
        self.time_s: float | None = None

    def look(self) -> None:
        """Check whether another process has proposed something."""
        if self.step is None:
            step = self._read("step")
            self.step = None if step is None else int(step)
        if self.time_s is None:
            self.time_s = self._read("time")

    def propose_step(self, step: int) -> None:
        """Propose a step, unless another process was first."""
        self._propose("step", step)
        self.look()
        self.step = step if self.step is None else self.step

    def propose_time(self, time_s: float) -> None:
        """Propose a time for a window by time, unless another process was first."""
        self._propose("time", time_s)
        self.look()
        self.time_s = time_s if self.time_s is None else self.time_s

    def _path(self, what: str) -> Path:
        return self._directory / f".window-{what}"

    def _read(self, what: str) -> float | None:
        try:
            return float(self._path(what).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def _propose(self, what: str, value: float) -> None:
        """Write a proposal atomically through a link, in case two processes write at once."""
        draft = self._directory / f".window-{what}-{os.getpid()}"
        with suppress(OSError):  # no shared place: each process by itself then
            draft.write_text(f"{value}\n", encoding="ascii")
            with suppress(FileExistsError):
                os.link(draft, self._path(what))
            draft.unlink()
