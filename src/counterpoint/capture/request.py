"""The request for a run: command, interpreter and settings, checked before anything starts."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from counterpoint.capture.interpreter import is_python
from counterpoint.core import UsageError
from counterpoint.core.bounds import check_number
from counterpoint.flags.settings import Settings

SHORTEST_S: Final = 0.001
"""The least time limit that makes sense."""
QUIET_S: Final = 1.0
CALM_STEPS: Final = 2
SECONDS: Final = 3.0
LONGEST_S: Final = 60.0
"""Maximum length of a window without steps, which may wait for a long one.

It is shorter if the profile grows fast.
"""


@dataclass(frozen=True, slots=True)
class ProfileSchedule:
    """The time at which a process profiles: from a step on, or once compilation is over.

    Steps are counted by the program's marks (`StepTraceAnnotation`, `StepProfiler`), else by
    executions of its largest compiled function. Without `start_step` the window opens after a few
    steps in a row without a compile, or when nothing was compiled for a second. An explicit
    `quiet_s` is waited for even if there are steps, and `seconds` is the length of the window if
    there are no steps. A profile `in_pieces` may exceed 2 GB (JAX 0.11.1 or later, not on GPUs).
    With `python` it has the calls of the host's Python, a span for each.
    """

    start_step: int | None = None
    steps: int = 10
    quiet_s: float | None = None
    seconds: float | None = None
    perfetto_link: bool = False
    in_pieces: bool = False
    python: bool = False
    processes: Literal["all"] | tuple[int, ...] = "all"
    instead: str | None = None
    """Why none is recorded: the program records one itself."""

    def for_agent(self, rank: int) -> dict[str, object]:
        """Return the window as the agent of a rank receives it."""
        return {
            "start_step": self.start_step,
            "steps": self.steps,
            "quiet_s": QUIET_S if self.quiet_s is None else self.quiet_s,
            "calm_steps": CALM_STEPS if self.quiet_s is None else None,
            "seconds": SECONDS if self.seconds is None else self.seconds,
            "longest_s": LONGEST_S if self.seconds is None else self.seconds,
            "perfetto_link": self.perfetto_link,
            "in_pieces": self.in_pieces,
            "python": self.python,
            "profile": self.has(rank) and self.instead is None,
            "instead": self.instead,
        }

    @property
    def requested(self) -> tuple[str, ...]:
        """The arguments that ask for a profile of certain steps or times."""
        named = ("start_step", "quiet_s", "seconds")
        return tuple(f"profile_{name}" for name in named if getattr(self, name) is not None)

    def has(self, rank: int) -> bool:
        """Return whether a rank profiles."""
        return self.processes == "all" or rank in self.processes


def agent_window(window: ProfileSchedule | None, rank: int) -> str:
    """Return the window as JSON; without one the agent only counts steps and compilations."""
    fields = (
        ProfileSchedule().for_agent(rank) | {"profile": False}
        if window is None
        else window.for_agent(rank)
    )
    return json.dumps(fields)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a workload is started, and when it is ended.

    `counterpoint run` has the same options: their names, defaults and help are those of the fields.

    Args:
        name: Name of the run; by default the program's.
        ranks: Number of local processes; not under srun or mpirun.
        per: Without --ranks: one process per GPU, or one for the node.
        timeout_s: End the run after this many seconds.
        hang_after_s: End it after this many seconds without output, a compile or a step.
        stop_after_steps: End it successfully after this many steps on all ranks.
    """

    name: str | None = None
    ranks: int | None = None
    per: Literal["gpu", "node"] = "node"
    timeout_s: float | None = None
    hang_after_s: float | None = None
    stop_after_steps: int | None = None

    def check(self) -> None:
        """Refuse numbers that make no sense."""
        check_number("--ranks", self.ranks, 1)
        check_number("--timeout", self.timeout_s, SHORTEST_S)
        check_number("--hang-after", self.hang_after_s, SHORTEST_S)
        check_number("--stop-after-steps", self.stop_after_steps, 1)


@dataclass(frozen=True)
class RunRequest(RunOptions):
    """One execution of a workload.

    Args:
        command: The command to run.
        directory: Where to keep it; None for a new directory under counterpoint-runs.
        settings: Flags and variables, after the inherited ones.
        window: The profile window; None for no profile.
        echo: Show its output while it runs: as it is, all on stderr, or not.
        environment: The environment it inherits; None for ours.
        origins: The source of each flag, in words, for errors.
    """

    command: tuple[str, ...]
    directory: Path | None = None
    settings: Settings = field(default_factory=Settings)
    window: ProfileSchedule | None = field(default_factory=ProfileSchedule)
    echo: bool | Literal["stderr"] = True
    environment: Mapping[str, str] | None = None
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def profiles(self, rank: int) -> bool:
        """Return whether a rank is to be profiled."""
        return self.window is not None and self.window.has(rank)


def refuse_missing(
    command: Sequence[str], env: Mapping[str, str], before: str = "counterpoint run"
) -> None:
    """Raise an error if the command can't be started; `before` is the text before `--`."""
    if not command:
        raise UsageError("no command was given", next=f"{before} -- python train.py")
    if shutil.which(command[0], path=env.get("PATH")) is not None:
        if (script := _script(command)) is not None and not script.exists():
            next_command = f"ls {shlex.quote(str(script.parent))}"
            raise UsageError(f"{script} was not found", next=next_command)
        return
    if "/" in command[0] and Path(command[0]).is_dir():
        raise UsageError(
            f"{command[0]} is a directory, not a program", next=f"{before} -- python train.py"
        )
    by_path = "/" in command[0] or command[0].endswith(".ipynb")
    is_file = Path(command[0]).is_file()
    may_run = os.access(command[0], os.X_OK)
    raise UsageError(
        f"{command[0]} {'is not executable' if is_file and by_path else 'was not found'}",
        why=None if by_path else "it is not on the PATH",
        next=f"{before} -- {'./' if may_run else 'python '}{shlex.join(command)}"
        if is_file
        else f"command -v {shlex.quote(command[0])}",
    )


def _script(command: Sequence[str]) -> Path | None:
    """Return the script that a Python or a shell is to run, if no other option precedes it."""
    if not (is_python(command[0]) or Path(command[0]).name in ("bash", "sh")):
        return None
    word = next((word for word in command[1:] if word != "-u"), "")
    return Path(word) if word.endswith((".py", ".sh")) and not word.startswith("-") else None
