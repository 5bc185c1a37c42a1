"""Executor: the contract of all places where trials run.

    Executor.open() ──► Allocation.start(Job) ──► Gang.poll() ──► Ended

No executor waits for a Gang: `wait_for` polls it, keeps the time, and kills it whole. Each rank is
a `counterpoint run` (rank_command.py), so a Run has the same files wherever it ran.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, Protocol, runtime_checkable

from counterpoint.capture.request import Window
from counterpoint.core.errors import CounterpointError
from counterpoint.flags import Settings
from counterpoint.runs.outcome import TIMED_OUT

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_GRACE_S: Final = 120.0
"""`counterpoint run` keeps the time limit itself, and needs some to end its ranks and to write."""
_LOOK_S: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How many nodes, and what one process gets: a GPU, a node, or so many on each node."""

    nodes: int = 1
    per: Literal["gpu", "node"] = "node"
    ranks_per_node: int | None = None  # says it outright, where there are no GPUs to count


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a trial is ended: after so long, so much silence, or so many steps."""

    timeout_s: float | None = None
    hang_after_s: float | None = None
    steps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One execution of the user's command.

    Args:
        name: Unique in the study, of letters, digits, dots and dashes.
        command: The user's.
        directory: Where its Run is to lie in the end, whoever made it where.
        settings: On top of what processes there inherit.
        environment: More variables, exactly so; None as a value unsets one.
        shape: How many processes, and where.
        limits: When it is ended.
        window: What to profile, if anything.
    """

    name: str
    command: tuple[str, ...]
    directory: Path
    settings: Settings = field(default_factory=Settings)
    environment: Mapping[str, str | None] = field(default_factory=lambda: _NONE)
    shape: Shape = field(default_factory=Shape)
    limits: Limits = field(default_factory=Limits)
    window: Window | None = None


class StoppedWaiting(CounterpointError):
    """Whoever waited for nodes was asked to stop; the request is withdrawn."""


class EndedKind(StrEnum):
    """Whose doing the end was, as the executor knows it; the Run knows the rest."""

    EXITED = "exited"
    KILLED = "killed"  # by us
    PREEMPTED = "preempted"
    NODE_FAULT = "node fault"
    LOST = "lost"  # nobody can tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a gang ended: the worst exit code of its processes, where there is one."""

    kind: EndedKind
    exit_code: int | None = None
    detail: str = ""


class Gang(Protocol):
    """All processes of one trial, which live and die together."""

    @property
    def identity(self) -> str:
        """By which `Executor.sweep` finds it again when the tuner has died."""
        ...

    def poll(self) -> Ended | None:
        """How it ended; None while it runs. Once it tells, the Run is complete on our disk."""
        ...

    def kill(self) -> None:
        """End all of it, and return when nothing of it is left."""
        ...


@runtime_checkable
class Queues(Protocol):
    """A gang that may have to wait for its nodes, as a batch job does. Most have theirs already."""

    def is_queued(self) -> bool:
        """Whether no process of it has started yet; its time does not run then."""
        ...


class Allocation(Protocol):
    """Nodes that are ours until we close it. Jobs that run here one after another share them."""

    @property
    def identity(self) -> str:
        """As `Gang.identity`, of the allocation as a whole."""
        ...

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes."""
        ...

    def start(self, job: Job) -> Gang:
        """Start a job; one at a time. A UsageError where it can't be started at all."""
        ...

    def close(self) -> None:
        """Give the nodes back; whatever runs there ends."""
        ...


class Executor(Protocol):
    """A place where trials run."""

    @property
    def name(self) -> str:
        """local, slurm or ray."""
        ...

    def open(self) -> Allocation:
        """A fresh allocation; waits until it is granted. Ctrl-C leaves nothing behind.

        Executors that may wait for long are made with a `stopped`, which they ask meanwhile: once
        it is true they raise StoppedWaiting, and leave nothing behind either.
        """
        ...

    def sweep(self, identity: str) -> None:
        """End what an earlier tuner left under that identity; nothing where there is none."""
        ...

    def describe(self) -> str:
        """For people: `local: 1 node, 2 processes`."""
        ...


def wait_for(
    gang: Gang, limits: Limits, stop: Callable[[], bool], *, grace_s: float = _GRACE_S
) -> Ended:
    """Wait for the end of a gang. It is killed when `stop` is true, and long after its time limit.

    Time in a scheduler's queue doesn't count. Any exception meanwhile, such as Ctrl-C, kills the
    gang, too.
    """
    began = time.monotonic()
    try:
        while True:
            ended = gang.poll()
            if ended is not None:
                return ended
            if stop():
                gang.kill()
                return Ended(kind=EndedKind.KILLED, detail="the tuner was asked to stop")
            now = time.monotonic()
            if isinstance(gang, Queues) and gang.is_queued():
                began = now
            if limits.timeout_s is not None and now - began > limits.timeout_s + grace_s:
                gang.kill()
                detail = (
                    f"still running {grace_s:g} s after its time limit of {limits.timeout_s:g} s"
                )
                return Ended(kind=EndedKind.KILLED, exit_code=TIMED_OUT, detail=detail)
            time.sleep(_LOOK_S)
    except BaseException:
        with suppress(CounterpointError):  # the first failure is the one to report
            gang.kill()
        raise
