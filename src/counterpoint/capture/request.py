"""What is to be run, and how."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from counterpoint.flags import Settings

QUIET_S: Final = 1.0
CALM_STEPS: Final = 2
SECONDS: Final = 3.0
LONGEST_S: Final = 60.0
"""A window without steps may wait for a long one; not where the profile grows fast."""


@dataclass(frozen=True, slots=True)
class Window:
    """When a process profiles: from a step on, or once compilation is over.

    Steps are counted where the program names them (`StepTraceAnnotation`, `StepProfiler`), else by
    executions of its largest compiled function. Without `start_step` the window opens after a few
    steps in a row without a compile, or when nothing was compiled for a second. `quiet_s` is to be
    waited for whatever steps are seen, and `seconds` is as long as the window then stays open
    where no steps are seen.
    """

    start_step: int | None = None
    steps: int = 10
    quiet_s: float | None = None
    seconds: float | None = None
    perfetto_link: bool = False
    processes: Literal["all"] | tuple[int, ...] = "all"

    def for_agent(self, rank: int) -> dict[str, object]:
        """What the agent of a rank is told."""
        return {
            "start_step": self.start_step,
            "steps": self.steps,
            "quiet_s": QUIET_S if self.quiet_s is None else self.quiet_s,
            "calm_steps": CALM_STEPS if self.quiet_s is None else None,
            "seconds": SECONDS if self.seconds is None else self.seconds,
            "longest_s": LONGEST_S if self.seconds is None else self.seconds,
            "perfetto_link": self.perfetto_link,
            "profile": self.has(rank),
        }

    def has(self, rank: int) -> bool:
        """Whether a rank profiles."""
        return self.processes == "all" or rank in self.processes


def agent_window(window: Window | None, rank: int) -> str:
    """The same as JSON; without a window the agent counts steps and compilations only."""
    told = (
        Window().for_agent(rank) | {"profile": False} if window is None else window.for_agent(rank)
    )
    return json.dumps(told)


@dataclass(frozen=True, slots=True)
class Request:
    """One execution of a workload.

    Args:
        command: What to run.
        directory: Where to keep it; None for a directory of its own under counterpoint-runs.
        name: What to call it; None for the program's name.
        settings: Flags and variables, behind the inherited ones.
        window: What to profile; None for no profile.
        ranks: Processes to start here; None for one, or for one per GPU. Not under a launcher.
        per: What a process gets: a GPU, or all that the node has.
        timeout_s: End it after so long.
        hang_after_s: End it when there was no output, step or compilation for so long.
        stop_after_steps: End it once so many steps were seen: that is no failure.
        echo: Show its output while it runs: as it is, all on stderr, or not.
        environment: What it inherits; None for ours.
        origins: Where each flag was given, in words, for errors.
    """

    command: tuple[str, ...]
    directory: Path | None = None
    name: str | None = None
    settings: Settings = field(default_factory=Settings)
    window: Window | None = field(default_factory=Window)
    ranks: int | None = None
    per: Literal["gpu", "node"] = "node"
    timeout_s: float | None = None
    hang_after_s: float | None = None
    stop_after_steps: int | None = None
    echo: bool | Literal["stderr"] = True
    environment: Mapping[str, str] | None = None
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def profiles(self, rank: int) -> bool:
        """Whether a rank is asked for a profile."""
        return self.window is not None and self.window.has(rank)
