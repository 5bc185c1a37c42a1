"""The profile window: when it opens, on which process of a rank, and why it did not open.

It opens at a step, or once compilation is over: after a few steps without a compile, or some time
without one.

Processes of one job take their steps together, but fall quiet at different moments: one compiles
longer than another. Profiles of different steps could not be compared. So the first process to be
quiet names a step a little ahead, in a file next to the ranks' directories, and all keep to it
(`WindowAgreement`). One that reads it too late opens at once; `start_step` in its process file
shows that.

Each rank takes one profile (`ProfileClaim`): the first of its compiling processes takes it. The
claim is a record lock on a file. The kernel drops it with the process, so a helper that ends
unprofiled leaves it to the next process; once a profile exists, the file says so.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from .steps import StepCounter


class WindowRequest(NamedTuple):
    """A window from step `start_step` on, for `steps` steps: counted in this process, from 0.

    The program's own step numbers count, too, if they begin at or below that. Without `start_step`:
    after `calm_steps` in a row without a compile, once nothing has been compiled for `quiet_s`, or
    where the loop compiles again and again. Then the next whole steps; if there are none,
    `seconds`, and no more than `longest_s`.
    `in_pieces`: written piece by piece, if possible. `python`: with the calls of Python.
    `processes`: only on these (jax.process_index). `instead`: why the program's own profile is
    waited for, and none recorded.
    """

    start_step: int | None = None
    steps: int = 10
    quiet_s: float = 1.0
    calm_steps: int | None = None
    seconds: float = 3.0
    longest_s: float | None = None
    perfetto_link: bool = False
    in_pieces: bool = False
    python: bool = False
    profile: bool = True
    processes: tuple[int, ...] | None = None
    instead: str | None = None


NONE = WindowRequest(profile=False)
PATIENCE_FACTOR = 2
"""After this many times `quiet_s` without a compile or a step, no step is expected any more."""
OPENED_BY_TIME = "no step was seen, so the profile was taken by time"
NOT_REQUESTED = "no profile was requested of this process"


def parse_window(text: str | None) -> WindowRequest:
    """Parse JSON; missing fields keep their defaults, unknown ones are ignored."""
    if not text:
        return NONE
    given = json.loads(text)
    known = {name: given[name] for name in WindowRequest._fields if given.get(name) is not None}
    if isinstance(known.get("processes"), str):
        del known["processes"]  # "all"
    elif "processes" in known:
        known["processes"] = tuple(known["processes"])
    return WindowRequest(**known)


class ProcessState(NamedTuple):
    """The state of a process when it ends."""

    now_s: float
    compiled: int
    busy: bool
    last_compile_s: float | None
    steps: int
    last_compiled: str | None = None
    times: int = 0  # number of its compiles
    executed: str | None = None  # the function whose executions were counted as steps


_AGAIN = 3  # minimum compiles of one name to mention


def why_never(window: WindowRequest, seen: ProcessState) -> str:
    """Return the reason why the window did not open."""
    if not window.profile:
        return window.instead or NOT_REQUESTED
    if window.start_step is not None:
        return _too_few_steps(window.start_step, seen)
    if seen.busy:
        return "the program ended while it was compiling"
    if seen.last_compile_s is None or not seen.compiled:
        return "the program never compiled anything"
    quiet_s = seen.now_s - seen.last_compile_s
    if quiet_s < window.quiet_s:
        few = f" or {window.calm_steps} steps without one" if window.calm_steps else ""
        return (
            f"the program ended {quiet_s:.1f} s after its last compile; "
            f"a profile begins after {window.quiet_s:g} s{few}{_compiled_again(seen)}"
        )
    return "the program ended before its next step"


def _compiled_again(seen: ProcessState) -> str:
    if seen.times < _AGAIN or not seen.last_compiled:
        return ""
    return f": {seen.last_compiled} was compiled last, {seen.times} times in all"


def _too_few_steps(start_step: int, seen: ProcessState) -> str:
    if seen.steps:
        only = f"only {seen.steps} step{'s' * (seen.steps != 1)} began"
        if seen.executed:
            times = f"{seen.steps} time{'s' * (seen.steps != 1)}"
            only = f"{seen.executed} was executed only {times}"
        return f"{only}, and the profile was to start with step {start_step}, counted from 0"
    missing = (
        "no step was seen: steps are counted from jax.profiler.StepTraceAnnotation, "
        "counterpoint.StepProfiler, or executions of the largest compiled function"
    )
    return missing if seen.compiled else f"{missing}; the program never compiled anything either"


_DONE = b"done"


class ProfileClaim:
    """The right to profile for this rank."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._mine = False

    def take(self) -> bool:
        """Try to take it; return True from the first success on."""
        if not self._mine:
            self._mine = self._try()
        return self._mine

    def _try(self) -> bool:
        import fcntl

        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        if os.pread(self._file, len(_DONE), 0) == _DONE:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
            return False
        self._say(b"held by ")
        return True

    def use_up(self) -> None:
        """Record that the profile exists."""
        self._say(_DONE + b" by ")

    def _say(self, what: bytes) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, what + str(os.getpid()).encode() + b"\n", 0)

    @property
    def holder(self) -> str:
        """The holder, in words."""
        words = self._words()
        return f"process {words[-1]}" if words else "another process"

    @property
    def used_up(self) -> bool:
        """True if a profile exists, of this process or of another."""
        return self._words()[:1] == [_DONE.decode()]

    def _words(self) -> list[str]:
        try:
            return self._path.read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return []


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
        return meeting.time_comes()


class WindowAgreement:
    """The agreement of the processes of a job: a step, or a wall-clock time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.step: int | None = None
        self.time_s: float | None = None
        self._known_s = math.inf

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

    def time_comes(self) -> bool:
        """Return whether the time has come; a clock that is set back does not put it off."""
        if self.time_s is None:
            return False
        self._known_s = min(self._known_s, time.monotonic())
        return time.time() >= self.time_s or time.monotonic() - self._known_s >= 2 * _AHEAD_S

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
