"""Opens the profile window when its time has come, and closes it.

waiting -> open -> done, or failed; never, when the process ends before. A window by steps opens and
closes in the thread that takes the steps, just before one; a window by time in the agent's thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .steps import Kind, Start
from .timing import Timing
from .trace import Profiler
from .window import BY_TIME, NOT_ASKED, Window


class NotNow(Exception):
    """The window can't be opened yet, for a reason that may pass."""


class NotHere(Exception):
    """The window is not for this process."""


class Recorder:
    """One window and what became of it."""

    def __init__(
        self,
        window: Window,
        timing: Timing,
        directory: Path,
        profiler: Profiler,
        may_open: Callable[[Window], None],
        changed: Callable[[], None],
    ) -> None:
        self.window = window
        self.directory = directory
        self.state = "waiting" if window.profile else "never"
        self.reason: str | None = None if window.profile else NOT_ASKED
        self.start_step: int | None = None
        self.steps: int | None = None
        self.kind: Kind | None = None
        self.opened_s: float | None = None
        self.closed_s: float | None = None
        self.files: list[Path] = []
        self._timing = timing
        self._profiler = profiler
        self._may_open = may_open
        self._changed = changed
        self._lock = threading.RLock()  # a signal handler of the program's may take steps

    @property
    def settled(self) -> bool:
        """Nothing more will happen."""
        return self.state not in ("waiting", "open")

    def step_begins(self, start: Start) -> None:
        """A step is about to begin, in this thread."""
        if self.state == "waiting":
            if start.leads and self._timing.step_due(start.turn):
                self._unless_busy(lambda: self._open(start))
        elif self._stands_in and self.state == "open":
            self._unless_busy(self._begin_again)
        elif self.state == "open" and start.kind == self.kind and self.start_step is not None:
            self.steps = start.turn - self.start_step
            if self.steps >= self.window.steps:
                self._unless_busy(lambda: self._close(wait=True))

    def _begin_again(self) -> None:
        """The steps do come: what was recorded instead of them is not what was asked."""
        if self.state == "open":
            try:
                self._profiler.drop(self.directory)
            except Exception as error:
                self._become("failed", str(error))
                raise
            self.opened_s = None
            self._become("waiting", None)

    @property
    def _stands_in(self) -> bool:
        """A window by time, where one by steps was asked."""
        return self.window.start_step is not None and self.kind is None

    def tick(self) -> None:
        """Time has passed."""
        if self.state == "waiting":
            if self._timing.time_due():
                self._unless_busy(lambda: self._open(None))
        elif self.state == "open" and self.kind is None and self._open_long_enough():
            self._unless_busy(lambda: self._close(wait=False))

    def _open_long_enough(self) -> bool:
        return time.monotonic() - (self.opened_s or 0.0) >= self.window.seconds

    def last_step_ended(self) -> None:
        """The step that was begun last has ended: close if it was the window's last."""
        if self.state == "open" and self.steps is not None and self._is_last(self.steps):
            self.steps += 1
            self._unless_busy(lambda: self._close(wait=True))

    def _is_last(self, step: int) -> bool:
        return self.kind is not None and step + 1 >= self.window.steps

    def fail(self, why: str) -> None:
        """Nothing can come of it."""
        self._become("failed", why)

    def retire(self) -> bool:
        """Leave the place to another recorder, if nothing has begun."""
        with self._lock:
            if self.state != "waiting":
                return False
            self.state = "never"
            return True

    def give_way(self, why: str) -> None:
        """Someone else is to profile: keep what there is."""
        with self._lock:
            if self.state == "open":
                self._close(wait=False, reason=f"{why}; what came before is kept")

    def finish(self) -> None:
        """No more steps will come."""
        with self._lock:
            if self.state == "open":
                self._close(wait=True, reason=self._cut_short("the loop"))

    def end(self, why_never: Callable[[], str]) -> None:
        """The process ends; waits for another thread that opens or closes now."""
        with self._lock:
            if self.state == "open":
                self._close(wait=False, reason=self._cut_short("the program"))
            elif self.state == "waiting":
                self._become("never", self.reason or why_never())

    def _cut_short(self, what: str) -> str | None:
        if self.kind is None:
            return f"{what} ended within the {self.window.seconds:g} s of the profile"
        self.steps = (self.steps or 0) + 1
        if self.steps >= self.window.steps:
            return None
        return f"{what} ended inside the window, in step {self.steps} of {self.window.steps}"

    def _unless_busy(self, act: Callable[[], None]) -> None:
        """Not while the other thread opens or closes: a step must not wait for that."""
        if self._lock.acquire(blocking=False):
            try:
                act()
            finally:
                self._lock.release()

    def _open(self, start: Start | None) -> None:
        if self.state != "waiting":
            return
        try:
            self._may_open(self.window)
            if start is not None:
                self._profiler.settle()
            link = self.window.perfetto_link
            self._profiler.start(
                self.directory,
                perfetto_link=link and start is not None,  # serving it changes the directory of
                perfetto_trace=link and start is None,  # the process, and stops it: not from aside
            )
        except NotNow as reason:
            self.reason = str(reason)
            return
        except NotHere as reason:
            self._become("never", str(reason))
            return
        except Exception as error:
            self._become("failed", str(error))
            raise
        if start is not None:
            self.kind, self.start_step, self.steps = start.kind, start.turn, 0
        self.opened_s = time.monotonic()
        self._become("open", None)

    def _close(self, *, wait: bool, reason: str | None = None) -> None:
        if self.state != "open":
            return
        self.closed_s = time.monotonic()
        if wait:
            with suppress(Exception):  # the profile is to be kept, whatever the devices say
                self._profiler.settle()
        try:
            reason = self._profiler.stop(self.directory) or reason
        except Exception as error:
            self._become("failed", str(error))
            raise
        except BaseException:  # Ctrl-C, while a link waits to be opened say
            kept = self._profiler.wrote(self.directory)
            self._become("done" if kept else "failed", "interrupted while the profile was written")
            raise
        self._become("done", self._in_full(reason))

    def _in_full(self, reason: str | None) -> str | None:
        said = [BY_TIME] if self._stands_in else []
        return "; ".join([*said, *([reason] if reason else [])]) or None

    def _become(self, state: str, reason: str | None) -> None:
        if state == "done":
            with suppress(OSError):
                self.files = self._profiler.written(self.directory)
        self.state, self.reason = state, reason
        self._changed()

    def facts(self, relative_to: Path) -> dict[str, Any]:
        """For the process file."""
        recorded = self.state in ("open", "done")
        return {
            "state": self.state,
            "reason": self.reason,
            "start_step": self.start_step,
            "steps": self.steps,
            "path": _relative(self.directory, relative_to) if recorded else None,
            "files": [_relative(path, relative_to) for path in self.files],
            "opened_s": self.opened_s,
            "closed_s": self.closed_s,
            "asked": self.window._asdict(),
        }


def _relative(path: Path, base: Path) -> str:
    return str(path.relative_to(base)) if base in path.parents else str(path)
