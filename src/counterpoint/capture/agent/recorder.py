"""Opens the profile window when it is due, and closes it.

waiting -> open -> done, or failed; never, if the process ends before. A window by steps opens and
closes in the thread that takes the steps, just before one; a window by time in the agent's thread,
and it continues by steps as soon as there are some. A reader considers a step whole once the next
one has begun, so one more than requested is recorded; except if the program calls StepProfiler,
since it may have no more.

It returns to waiting if a compile shows that the recording is not of the actual training.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .steps import API, EXECUTION, CountedStep, StepKind
from .trace import OtherProfilerError, Profiler
from .window import NOT_REQUESTED, OPENED_BY_TIME, Timing, WindowRequest

_ENOUGH = 5  # a recording with this many whole steps without a compile is kept when one starts
_RESTARTS = 5  # for compiles in the window; then a program that keeps compiling is profiled anyway
_SETTLE_S = 1.0  # maximum wait for executions that were queued before the window
_GROWTH = 1 << 29  # bytes by which a window by time may grow the process
_FIRST_RUNS = 2  # of a program, in which it allocates what it keeps
_AT_FIRST = 8  # times _GROWTH until then: the program's own memory is no sign of a large profile
_WHOLE = 3  # runs of the step that a window by time waits for, if it knows when they begin
_PATIENCE = 5  # times the longest window: minutes
_RETRY_S = 0.2  # before retrying to open a window: checking takes time
_MORE = 4  # times the earlier function's seconds, after which another one is the training for sure
_HEARD = 2  # executions when the first is reported: the call that compiles is not
WAITED = "it waited until another profiler in this process had ended"
COMPILES = "something was compiled during the profile"


class NotYetError(Exception):
    """Raised if the window can't be opened yet, for a reason that may pass."""


class NotThisProcessError(Exception):
    """Raised if the window is not for this process."""


class ProfileRecorder:
    """One window and its outcome."""

    def __init__(
        self,
        window: WindowRequest,
        timing: Timing,
        directory: Path,
        profiler: Profiler,
        may_open: Callable[[WindowRequest], None],
        changed: Callable[[], None],
    ) -> None:
        self.window = window
        self.directory = directory
        self.state = "waiting" if window.profile else "never"
        self.reason: str | None = None if window.profile else window.instead or NOT_REQUESTED
        self.start_step: int | None = None
        self.steps: int | None = None
        self.kind: StepKind | None = None
        self.opened_s: float | None = None
        self.closed_s: float | None = None
        self.files: list[Path] = []
        self._timing = timing
        self._profiler = profiler
        self._may_open = may_open
        self._changed = changed
        self._lock = threading.RLock()  # the program's signal handler may take steps
        self._restarts = 0
        self._held = 0  # bytes of the process when the window opened
        self._settled = False  # True if the devices were idle then
        self._tried_s = -math.inf  # last failed attempt to open it
        self._early = False  # opened before anything was executed, as requested
        self._kept: dict[str, Any] = {}  # of an earlier window, until a later one is done
        self.executed: Callable[[], int] = lambda: 0
        self.seconds_of: Callable[[str], tuple[float, float]] = lambda _: (0.0, 0.0)
        self.trains: Callable[[str], bool] = lambda _: False
        self.printed: Callable[[float], int | None] = lambda _: None
        self._kept_its_own = False  # the program has allocated what it keeps
        self._second = False  # another profiler was active when it was due
        self._executed_before = 0

    @property
    def settled(self) -> bool:
        """True if nothing more will happen."""
        return self.state not in ("waiting", "open")

    def step_begins(self, start: CountedStep) -> None:
        """Handle a step that is about to begin, in this thread."""
        if self.state == "waiting":
            if (
                start.leads
                and start.kind != self._kept.get("kind")
                and self._timing.step_due(start.turn)
                and self._outweighs_kept(start.kind)
            ):
                self._unless_busy(lambda: self._open(start))
        elif self.state == "open" and (self._stands_in or self._is_too_early(start)):
            self._unless_busy(self._begin_again)
        elif self.state == "open" and self._replaces(start):
            self._counts_from(start)
        elif self.state == "open" and start.kind == self.kind and self.start_step is not None:
            self.steps = start.turn - self.start_step
            if self.steps >= self.window.steps + (start.kind.source != API.source):
                self.steps = self.window.steps
                self._unless_busy(lambda: self._close(wait=True))

    def _replaces(self, start: CountedStep) -> bool:
        """Return whether this is a better step count than the one used in this window so far."""
        if self.kind is None:
            return start.leads
        return start.leads and self.kind.source == EXECUTION and start.kind != self.kind

    def _is_too_early(self, start: CountedStep) -> bool:
        """Return whether a program that marks its steps has not reached the requested one."""
        is_marked = self.kind is None and start.kind.source != EXECUTION
        return is_marked and self._early and not self._timing.step_due(start.turn)

    def _counts_from(self, start: CountedStep) -> None:
        """Start counting.

        In a window open for the compiling call, the first two executions count.
        """
        both = self._early and self.kind is None and start.kind.source == EXECUTION
        first = 0 if both and start.turn == _HEARD else start.turn
        self.kind, self.start_step, self.steps = start.kind, first, start.turn - first

    def compile_begins(self) -> None:
        """Handle a compile: keep enough steps before it, else discard the recording."""
        if self.state != "open" or self._is_as_requested:
            return
        if (self.steps or 0) >= _ENOUGH:
            self._unless_busy(lambda: self._close(wait=False, reason=COMPILES))
        elif self.kind is None or self._restarts < _RESTARTS:
            self._restarts += self.kind is not None
            self._unless_busy(self._begin_again)

    @property
    def _is_as_requested(self) -> bool:
        """True for a window that began with the requested step: it is kept in any case."""
        return self.window.start_step is not None and self.kind is not None

    def compiled(self) -> None:
        """Open for the compiled function, which runs next: the only chance to record it."""
        if self.state == "waiting":
            self._early = True
            self._unless_busy(lambda: self._open(None))

    def _begin_again(self) -> None:
        """Discard the recording, which is not what was requested, and wait again."""
        if self.state == "open":
            try:
                self._profiler.drop(self.directory)
            except Exception as error:
                self._become("failed", str(error))
                raise
            self.kind = self.start_step = self.steps = self.opened_s = None
            self._become("waiting", None)

    def again(self) -> None:
        """Wait for a window of something else, which is kept if that takes more of the time."""
        with self._lock:
            if self.state == "done":
                names = ("reason", "start_step", "steps", "kind", "opened_s", "closed_s", "files")
                self._kept = {name: getattr(self, name) for name in names}
                self.kind = self.start_step = self.steps = self.opened_s = self.closed_s = None
                self._become("waiting", None)

    def _outweighs_kept(self, kind: StepKind | None) -> bool:
        """Return whether these steps are the training rather than those of the kept recording.

        Training may follow the initialization of many layers, and an evaluation may follow some
        training. What a profile or a compile adds to a step does not count here.
        """
        kept = self._kept.get("kind")
        if kept is None or (kind is not None and kind.source != EXECUTION):
            return True
        if kind is not None and self.trains(kind.name) and not self.trains(kept.name):
            return True
        spent_s, one_s = (0.0, 0.0) if kind is None else self.seconds_of(kind.name)
        before_s, _ = self.seconds_of(kept.name)
        if self.state == "open":
            return spent_s > before_s
        return self.window.steps * one_s > before_s or spent_s > _MORE * before_s

    @property
    def _stands_in(self) -> bool:
        """True for a window by time, if one by steps was requested."""
        return self.window.start_step is not None and self.kind is None and not self._early

    def tick(self) -> None:
        """Handle the passing of time."""
        if self.state == "waiting":
            if not self._kept and self._timing.time_due():
                self._unless_busy(lambda: self._open(None))
        elif self.state == "open" and self._open_long_enough():
            self._unless_busy(lambda: self._close(wait=False))

    def _open_long_enough(self) -> bool:
        """Return whether to close now: marked steps are waited for, executions may have ended."""
        if self.kind is not None and self.kind.source != EXECUTION:
            return False
        open_s = time.monotonic() - (self.opened_s or 0.0)
        longest_s = self.window.longest_s
        if open_s < self.window.seconds or (self._is_as_requested and longest_s is None):
            return False
        if longest_s is None or longest_s <= self.window.seconds:  # the length was requested
            return True
        return self._has_grown() or self._has_enough(open_s, longest_s)

    def _has_enough(self, open_s: float, longest_s: float) -> bool:
        seen = self._whole_runs()
        if seen is None:
            many = self.executed() - self._executed_before > self.window.steps
            return many or open_s >= longest_s  # `many`: executed operation by operation
        if self.kind is None and seen >= self.window.steps:
            return True
        return open_s >= longest_s * (1 if seen >= _WHOLE else _PATIENCE)

    def _whole_runs(self) -> int | None:
        """Return how many runs of the step the window holds; None if nothing tells.

        Steps that a program only prints are known to whoever started it, who writes them down.
        """
        if self.kind is not None:
            return self.steps or 0
        lines = self.printed(self.opened_s or 0.0)
        return None if lines is None else max(lines - 1, 0)

    def _has_grown(self) -> bool:
        """Return whether the profile is about to fill the memory."""
        runs = self.steps or 0
        if self.kind is not None and runs >= _FIRST_RUNS and not self._kept_its_own:
            self._kept_its_own, self._held = True, _held()
        first = self.executed() - self._executed_before <= self.window.steps
        allowed = _GROWTH * (_AT_FIRST if first and not self._kept_its_own else 1)
        return _held() - self._held > allowed

    def last_step_ended(self) -> None:
        """Handle the end of the last begun step: close if it was the window's last."""
        if self.state == "open" and self.steps is not None and self._is_last(self.steps):
            self.steps += 1
            self._unless_busy(lambda: self._close(wait=True))

    def _is_last(self, step: int) -> bool:
        return self.kind is not None and step + 1 >= self.window.steps

    def fail(self, why: str) -> None:
        """Mark the window as failed."""
        self._become("failed", why)

    def retire(self) -> bool:
        """Yield to another recorder, if nothing has begun; return whether it did."""
        with self._lock:
            if self.state != "waiting":
                return False
            self.state = "never"
            return True

    def give_way(self, why: str) -> None:
        """Close an open window for another profiler: keep it if it has enough, else wait again."""
        with self._lock:
            if self.state != "open":
                return
            if (self.steps or 0) < _ENOUGH and not self._is_as_requested:
                self._second = True
                self._begin_again()
                self.reason = why
            else:
                # Counted executions may still be in the devices' queues.
                self._close(wait=True, reason=f"{why}; the recording up to then is kept")

    def finish(self) -> None:
        """Handle the end of the steps."""
        with self._lock:
            if self.state == "open":
                self._close(wait=True, reason=self._cut_short("the loop"))
            elif self.state == "waiting" and self._second:
                self._become("failed", self.reason)
                raise OtherProfilerError(self.reason or "another profiler is active")

    def end(self, why_never: Callable[[], str]) -> None:
        """Handle the end of the process; wait for another thread that opens or closes now."""
        with self._lock:
            if self.state == "open" and self._is_empty:
                self._begin_again()
            if self.state == "open":
                self._close(wait=False, reason=self._cut_short("the program"))
            elif self.state == "waiting":
                self._become("never", self.reason or why_never())

    @property
    def _is_empty(self) -> bool:
        """True if it waited for the next execution, and there was none."""
        executions = self.kind is not None and self.kind.source == EXECUTION
        return executions and self.steps == 0 and self._settled

    def _cut_short(self, what: str) -> str | None:
        if self.kind is not None and self.kind.source != EXECUTION:
            self.steps = (self.steps or 0) + 1  # the one that has begun
        elif not self.steps:
            self.kind = self.start_step = self.steps = None
            return f"{what} ended during the profile, before a step was counted"
        steps = self.steps = min(self.steps or 0, self.window.steps)
        if steps >= self.window.steps:
            return None
        if self.kind is not None and self.kind.source == EXECUTION:
            return f"{what} ended after {steps} of {self.window.steps} steps"
        return f"{what} ended inside the window, in step {steps} of {self.window.steps}"

    def _unless_busy(self, act: Callable[[], None]) -> None:
        """Act unless the other thread opens or closes: a step must not wait for that."""
        if self._lock.acquire(blocking=False):
            try:
                act()
            finally:
                self._lock.release()

    def _open(self, start: CountedStep | None) -> None:
        if self.state != "waiting" or time.monotonic() - self._tried_s < _RETRY_S:
            return
        try:
            self._may_open(self.window)
            self._profiler.refuse_second()
            self._settled = self._settle(start)
            self._held, self._executed_before = _held(), self.executed()
            self._kept_its_own = False
            link = self.window.perfetto_link
            self._profiler.start(
                self.directory,
                perfetto_link=link and start is not None,  # serving it changes the directory of
                perfetto_trace=link
                and start is None,  # the process, and stops it: only from this thread
                in_pieces=self.window.in_pieces,
                python=self.window.python,
            )
        except (NotYetError, OtherProfilerError) as reason:
            self.reason, self._tried_s = str(reason), time.monotonic()
            self._second = self._second or isinstance(reason, OtherProfilerError)
            return
        except NotThisProcessError as reason:
            self._become("never", str(reason))
            return
        except Exception as error:
            self._become("failed", str(error))
            raise
        if start is not None:
            self._counts_from(start)
        self.opened_s = time.monotonic()
        self._become("open", None)

    def _settle(self, start: CountedStep | None) -> bool:
        if start is None:
            return False
        if start.kind.source == EXECUTION:
            return self._profiler.settle(_SETTLE_S)
        return self._profiler.settle()

    def _close(self, *, wait: bool, reason: str | None = None) -> None:
        if self.state != "open":
            return
        self.closed_s = time.monotonic()
        if not self._outweighs_kept(self.kind):
            with suppress(Exception):
                self._profiler.drop(self.directory)
            self._become("never", None)  # the kept recording is done
            return
        if wait:
            with suppress(Exception):  # keep the profile, whatever the devices report
                self._profiler.settle()
        try:
            reason = self._profiler.stop(self.directory) or reason
        except Exception as error:
            self._become("failed", str(error))
            raise
        except BaseException:  # Ctrl-C, while a link waits to be opened for example
            kept = self._profiler.wrote(self.directory)
            self._become("done" if kept else "failed", "interrupted while the profile was written")
            raise
        self._become("done", self._in_full(reason))

    def _in_full(self, reason: str | None) -> str | None:
        reasons = [OPENED_BY_TIME] if self._stands_in else []
        reasons += [WAITED] if self._second else []
        return "; ".join([*reasons, *([reason] if reason else [])]) or None

    def _become(self, state: str, reason: str | None) -> None:
        self.state, self.reason = state, reason
        if state == "done":
            with suppress(OSError):
                self.files = self._profiler.written(self.directory)
            for path in {*self._kept.get("files", ())} - {*self.files}:
                with suppress(OSError):
                    path.unlink()
            self._kept = {}
        elif self.settled and self._kept:
            self.state = "done"
            for name, value in self._kept.items():
                setattr(self, name, value)
            self._kept = {}
        self._changed()

    def facts(self, relative_to: Path) -> dict[str, Any]:
        """Return the facts for the process file."""
        recorded = self.state in ("open", "done")
        return {
            "state": self.state,
            "reason": self.reason,
            "start_step": self.start_step,
            "steps": self.steps,
            "counted": self.kind.words if self.kind else None,
            "path": _relative(self.directory, relative_to) if recorded else None,
            "files": [_relative(path, relative_to) for path in self.files],
            "opened_s": self.opened_s,
            "closed_s": self.closed_s,
            "asked": self.window._asdict(),
        }


def _relative(path: Path, base: Path) -> str:
    return str(path.relative_to(base)) if base in path.parents else str(path)


def _held() -> int:
    """Return the resident memory in bytes; the profiler keeps its events there."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
