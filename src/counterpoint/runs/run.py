"""One execution of a workload, as stored on disk."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

from counterpoint.runs import layout
from counterpoint.runs.compiler_lines import CompilerLine, compiler_lines
from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.timeline.formats import XPLANE

_WRITTEN_LATE_S: Final = 5.0  # clocks of a file system and of a host differ a little
_UNSAID: Final = {
    ("waiting", True): "the program ended before the steps to profile",
    ("waiting", False): "the program ended before there was a long enough time without compilation",
    ("open", True): "the program ended during the profile",
    ("open", False): "the program ended during the profile",
}
"""Reasons for a killed process without one: by state, and whether steps were requested."""
_AHEAD_OF_TIME: Final = "a_program_compiled_ahead_of_time"
"""The name under which executions of such programs are counted: `capture/agent/executions.py`."""
_NO_NAMES: Final[Mapping[str, object]] = {}
_GOES_ON: Final = {
    "waiting": "the run is in progress, and the profile has not begun",
    "open": "the run is in progress and being profiled",
}
_SHUT_OUT: Final = (
    "PYTHONPATH was replaced (extend it: PYTHONPATH=x:$PYTHONPATH), "
    "or Python ignores it (env -i, python -I, -E or -S)"
)
"""The agent is loaded through PYTHONPATH."""

_TOO_MANY: Final = 1 / 3
BURSTS: Final = (
    "many lines came together with the one before, so nothing tells when each was printed"
)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The Settings a run was started with; the fields are those of `flags.Settings`."""

    xla: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class StepStart:
    """The start of a step; `seconds` if the program itself reports its duration."""

    step: int | None
    start_s: float
    source: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Compile:
    """A trace, lowering or compile by JAX, or a cache hit."""

    name: str | None
    seconds: float
    kind: str
    at_s: float | None = None
    aot: bool = False
    where: str | None = None


@dataclass(frozen=True, slots=True)
class RequestedWindow:
    """The step from which to profile; None: once compilation has been quiet long enough."""

    start_step: int | None = None


@dataclass(frozen=True, slots=True)
class ProfileWindow:
    """The state of a process's profile: waiting, open, done, failed or never, and the reason."""

    state: str = "waiting"
    reason: str | None = None
    start_step: int | None = None
    steps: int | None = None
    path: str | None = None
    opened_s: float | None = None  # on the clock of the steps
    closed_s: float | None = None  # then it is written, which takes time
    files: tuple[str, ...] = ()  # the rank directory's files, relative to it
    asked: RequestedWindow = RequestedWindow()
    counted: str | None = None  # description of the counted steps


@dataclass(frozen=True, slots=True)
class ObservedProcess:
    """Observations of the agent in one Python process of a rank; `facts` is all it recorded."""

    pid: int
    versions: Mapping[str, str]
    platform: str | None
    devices: tuple[str, ...]
    process_index: int | None
    process_count: int | None
    peak_memory: Mapping[str, int]
    window: ProfileWindow | None
    facts: Mapping[str, object]


@dataclass(frozen=True)
class Rank:
    """One process of the workload, with all its files."""

    number: int
    host: str
    path: Path
    outcome: Outcome
    local_rank: int = 0
    pid: int | None = None
    started: datetime | None = None
    ended: datetime | None = None
    environment: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    dump: Path | None = None
    ir: Path | None = None
    profile_asked: bool = True
    entered: bool = False  # True if a Python of the rank has loaded the agent
    processes: tuple[ObservedProcess, ...] = ()
    steps: tuple[StepStart, ...] = ()
    compiles: tuple[Compile, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def stdout(self) -> Path:
        """The file of its stdout."""
        return self.path / layout.STDOUT

    @property
    def stderr(self) -> Path:
        """The file of its stderr, which includes the compiler's log."""
        return self.path / layout.STDERR

    @property
    def agent(self) -> Path:
        """The directory that the agent writes to."""
        return self.path / layout.AGENT

    @property
    def profiles(self) -> tuple[Path, ...]:
        """The XPlane files of the newest profile, even if the program stores it elsewhere.

        If there is none, those of the newest profile that the program recorded itself.
        """
        return self.recorded_profiles or self.own_profiles

    @property
    def own_profiles(self) -> tuple[Path, ...]:
        """The XPlane files of the newest profile that the program's own profiler wrote.

        Its directory may have those of earlier and later runs.
        """
        began = self.started.timestamp() if self.started else 0.0
        ended = self.ended.timestamp() + _WRITTEN_LATE_S if self.ended else math.inf
        sessions: dict[Path, float] = {}
        for directory in self.own_directories:
            for file in xplane_files(directory.glob("plugins/profile/*")):
                with suppress(OSError):
                    written = file.stat().st_mtime
                    if began <= written <= ended:
                        sessions[file.parent] = max(written, sessions.get(file.parent, 0.0))
        if not sessions:
            return ()
        return xplane_files([max(sessions, key=lambda session: sessions[session])])

    @property
    def own_directories(self) -> tuple[Path, ...]:
        """The directories on this machine into which the program started to record profiles."""
        directories: dict[Path, None] = {}
        for process in self.processes:
            recorded = process.facts.get("own_profiles")
            for name in cast("list[object]", recorded) if isinstance(recorded, list) else []:
                if isinstance(name, str) and "://" not in name:
                    directories[Path(name)] = None
        return tuple(directories)

    @property
    def recorded_profiles(self) -> tuple[Path, ...]:
        """The XPlane files of the profile that Counterpoint recorded."""
        windows = [process.window for process in self.processes if process.window]
        named = [self.path / file for window in windows for file in window.files]
        if existing := sorted(file for file in named if file.is_file()):
            return tuple(existing)
        sessions = sorted(self.path.glob(f"{layout.PROFILE}/plugins/profile/*"), reverse=True)
        return next((profiles for session in sessions if (profiles := xplane_files([session]))), ())

    @property
    def hlo(self) -> tuple[Path, ...]:
        """The scheduled modules that XLA dumped, `step_module` first; as text if configured so.

        Sorted by compile time as far as it is known, then by size.
        """
        place = self.dump or self.path / layout.XLA
        protos = self._made(place, "*after_optimizations.hlo.pb")
        modules = protos or self._made(place, "*after_optimizations.txt")
        took = longest_compiles(self.compiles)
        step = self.known_step_module

        def order(path: Path) -> tuple[bool, float]:
            module = module_of(path, took)
            return module != step, -took.get(module, 0.0)

        return tuple(sorted(modules, key=order))

    @property
    def step_compiles(self) -> tuple[Compile, ...]:
        """The compiles and cache hits of what ran as steps; empty if that is not known.

        Executions were counted; in a program that marks its steps, they are those within the first.
        """
        if self.step_source in ("annotation", "api"):
            return _compiled_for_steps(self.compiles, self.steps)
        counted = {name for process in self.processes for name in _counted(process)}
        return tuple(it for it in self.compiles if _function_of(it) in counted)

    @property
    def known_step_module(self) -> str | None:
        """The module that took longest of `step_compiles`; None if that is not known."""
        took = longest_compiles(self.step_compiles)
        return max(took, key=lambda name: took[name], default=None)

    @property
    def step_module(self) -> str | None:
        """The name of the step's module: the known one, else what took longest to compile."""
        if (known := self.known_step_module) is not None:
            return known
        took = longest_compiles(self.compiles)
        for path in self.hlo[:1]:
            return module_of(path, took) or _stem_of(path)
        return max(took, key=lambda name: took[name], default=None)

    @property
    def unoptimized(self) -> tuple[Path, ...]:
        """The modules as they were passed to XLA, the largest first."""
        return self._made(self.dump or self.path / layout.XLA, "*before_optimizations.hlo.pb")

    @property
    def lowered(self) -> tuple[Path, ...]:
        """The modules that JAX passed to the compiler, the largest first."""
        return self._made(self.ir or self.path / layout.IR, "*.mlir")

    @property
    def debug_options(self) -> tuple[Path, ...]:
        """The flags as the compiler reports them, one text per module."""
        return tuple(sorted(self._made(self.dump or self.path / layout.XLA, "*.debug_options")))

    @cached_property
    def compiler_lines(self) -> tuple[CompilerLine, ...]:
        """The lines that XLA and its libraries logged."""
        try:
            text = self.stderr.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ()
        return compiler_lines(text)

    @property
    def step_seconds(self) -> tuple[float, ...]:
        """Step durations: the program's own, or from one start to the next.

        If only every tenth step is reported, their mean stands for the ten.
        """
        own = tuple(step.seconds for step in self.steps if step.seconds is not None)
        if own and len(own) == len(self.steps):
            return own
        if self.steps_in_bursts:
            return ()
        each_s: list[float] = []
        for before, after in zip(self.steps, self.steps[1:], strict=False):
            took_s = after.start_s - before.start_s
            if (apart := steps_apart(before, after)) > 0 and took_s > 0:
                each_s.append(took_s / apart)
        return tuple(each_s)

    @property
    def steps_seen(self) -> int:
        """The number of steps that passed from the first seen to the last, which may not be all."""
        if self.step_source != "log" or not self.steps:
            return len(self.steps)
        passed = sum(max(steps_apart(*pair), 0) for pair in pairwise(self.steps)) + 1
        return max(passed, len(self.steps))

    @property
    def steps_in_bursts(self) -> bool:
        """True if steps are known only from lines, and those arrived together."""
        if self.step_source != "log" or self.steps[0].seconds is not None:
            return False
        return in_bursts([step.start_s for step in self.steps])

    @property
    def step_source(self) -> str | None:
        """The source of the steps: annotation, api or log."""
        return self.steps[0].source if self.steps else None

    @property
    def window(self) -> ProfileWindow | None:
        """The outcome of the profile; None if no agent ran."""
        windows = [process.window for process in self.processes if process.window]
        order = ("done", "open", "failed", "waiting", "never")
        known = [window for window in windows if window.state in order]
        return min(known, key=lambda window: order.index(window.state), default=None)

    def _made(self, directory: Path, pattern: str) -> tuple[Path, ...]:
        """Return files by size. A user's own directory may also contain those of earlier runs."""
        since = self.started.timestamp() if self.started else 0.0
        in_run = directory.is_relative_to(self.path)
        try:
            about = [(path.stat(), path) for path in directory.glob(pattern)]
        except (OSError, ValueError):  # no directory has such a name, or a file is gone
            return ()
        sized = [
            (-status.st_size, path)
            for status, path in about
            if in_run or status.st_mtime >= since - 1
        ]
        return tuple(path for _, path in sorted(sized))


@dataclass(frozen=True)
class Run:
    """One execution of a workload under Settings."""

    path: Path
    name: str
    command: tuple[str, ...]
    cwd: str
    started: datetime
    ended: datetime | None
    settings: RunSettings
    launcher: str
    outcome: Outcome
    ranks: tuple[Rank, ...]
    world_size: int = 1
    version: str = ""
    job: str | None = None
    notes: tuple[str, ...] = ()

    def rank(self, number: int) -> Rank:
        """Return the rank with this number."""
        for rank in self.ranks:
            if rank.number == number:
                return rank
        raise KeyError(f"{self.path} has no rank {number}")

    @property
    def profiles(self) -> tuple[Path, ...]:
        """The profiles of all ranks."""
        every = (path for rank in self.ranks for path in rank.profiles)
        return tuple(dict.fromkeys(every))  # ranks may share a directory of their own

    @property
    def own_profile(self) -> Path | None:
        """The directory of the program's own profile, where it stands in for a missing one."""
        for rank in self.ranks:
            if not rank.recorded_profiles and rank.own_profiles:
                return rank.own_profiles[0].parent
        return None

    @property
    def timed(self) -> Rank | None:
        """The rank whose steps represent the run: the first that has any."""
        return next((rank for rank in self.ranks if rank.step_seconds), None)

    @property
    def state(self) -> str:
        """`running` or `ended`, according to the ranks."""
        return "running" if self.outcome.kind is OutcomeKind.RUNNING else "ended"

    @property
    def versions(self) -> dict[str, str]:
        """Versions of Python, JAX and its plugins, as the processes reported them."""
        processes = [process for rank in self.ranks for process in rank.processes]
        return {
            name: version for process in processes for name, version in process.versions.items()
        }

    @property
    def why_no_profile(self) -> str:
        """The reason why `profiles` is empty."""
        profiled = [rank for rank in self.ranks if rank.profile_asked]
        if not profiled:
            return "none was requested"
        for rank in profiled:
            if rank.window is not None and rank.window.state != "done":
                return _unsaid(rank.window, rank.outcome)
        gone = next((rank.window.path for rank in profiled if rank.window), None)
        if gone is not None:
            return f"it was written to {gone}, which no longer exists"
        if any(rank.outcome.kind is OutcomeKind.RUNNING for rank in profiled):
            return "the run is in progress, and no Python process has imported jax yet"
        if any(rank.lowered or rank.hlo for rank in profiled):
            return f"JAX ran, but the agent is in none of its processes: {_SHUT_OUT}"
        return f"no Python process imported jax; if one did, {_SHUT_OUT}"


def _unsaid(window: ProfileWindow, outcome: Outcome) -> str:
    """Return why a window has no profile, if its process did not record the reason."""
    if window.reason:
        return window.reason
    if outcome.kind is OutcomeKind.RUNNING and window.state in _GOES_ON:
        return _GOES_ON[window.state]
    return _UNSAID.get((window.state, window.asked.start_step is not None), window.state)


def xplane_files(directories: Iterable[Path]) -> tuple[Path, ...]:
    """Return the profiles in these directories."""
    matches = (place.glob(f"*{ending}") for place in directories for ending in XPLANE.endings)
    return tuple(sorted(path for paths in matches for path in paths))


def _counted(process: ObservedProcess) -> Iterable[str]:
    """Return the functions whose executions the agent counted, as in the names of modules."""
    counted = process.facts.get("executions")
    names = cast("dict[str, object]", counted) if isinstance(counted, dict) else _NO_NAMES
    return [re.sub(r"[^\w.-]", "_", name) for name in names]


def _function_of(compiled: Compile) -> str:
    """Return the function in a module's name, `step` in `jit_step`, as executions are counted."""
    return _AHEAD_OF_TIME if compiled.aot else (compiled.name or "").partition("_")[2]


def _compiled_for_steps(
    compiles: Iterable[Compile], steps: Sequence[StepStart]
) -> tuple[Compile, ...]:
    if len(steps) < 2:
        return ()
    first, second = steps[0].start_s, steps[1].start_s
    return tuple(
        it for it in compiles if it.aot or (it.at_s is not None and first <= it.at_s <= second)
    )


def longest_compiles(compiles: Iterable[Compile]) -> dict[str, float]:
    """Return seconds of the longest compile of each module; cache hits have no time."""
    took: dict[str, float] = {}
    for compiled in compiles:
        if compiled.kind == "backend" and compiled.name:
            took[compiled.name] = max(compiled.seconds, took.get(compiled.name, 0.0))
    return took


def module_of(path: Path, names: Iterable[str]) -> str:
    """Return the module of a dumped file (`module_0001.NAME.cpu_after_...`), or an empty string."""
    rest = path.name.partition(".")[2]
    return max((name for name in names if rest.startswith(f"{name}.")), key=len, default="")


def _stem_of(path: Path) -> str:
    """Return the module name in a file name as well as possible: it may contain dots, too."""
    return path.name.partition(".")[2].partition(".")[0] or path.stem


def steps_apart(before: StepStart, after: StepStart) -> int:
    """Return the steps between two starts; one if they have no numbers."""
    if before.step is None or after.step is None:
        return 1
    return after.step - before.step


def in_bursts(arrivals: Sequence[float]) -> bool:
    """Return whether too many lines arrived together for the others to be trusted.

    Lines of one piece of output have one time. A program that hands over each line alone may print
    them as fast as it likes.
    """
    gaps = [after - before for before, after in pairwise(arrivals)]
    return sum(gap <= 0 for gap in gaps) > _TOO_MANY * len(gaps)
