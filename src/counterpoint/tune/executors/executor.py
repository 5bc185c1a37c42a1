"""Executor: the contract of all places where trials run.

    Executor.open() ──► Allocation.start(TrialJob) ──► Gang.poll() ──► GangEnd

No executor waits for a Gang: `wait_for` polls it, enforces its time limit, and kills it as a whole.
Each rank is a `counterpoint run` (`rank_command`), so a Run has the same files wherever it ran.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, Generic, Literal, Protocol, TypeVar, runtime_checkable

from counterpoint.capture import ProfileSchedule
from counterpoint.core import CounterpointError, UsageError
from counterpoint.core.arguments import option_words
from counterpoint.flags.settings import Settings
from counterpoint.runs.outcomes import TIMED_OUT
from counterpoint.tune.executors.process_supervisor import USUAL_TIMES, EndingTimes

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_GRACE_S: Final = 120.0
"""`counterpoint run` enforces the time limit itself, then has to end its ranks and to write."""
_LOOK_S: Final = 0.25
_HERE: Final = (sys.executable, "-P", "-m", "counterpoint")
_SETTINGS: Final = ("XLA_", "JAX_", "NCCL_", "LIBTPU_")
_NOT_SETTINGS: Final = ("JAX_COORDINATOR", "JAX_PROCESS", "JAX_NUM_PROCESSES", "JAX_LOCAL_DEVICE")


Options = TypeVar("Options")
"""An executor's own options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessShape:
    """The number of nodes, and of processes: one per GPU or node, or a number on each node."""

    nodes: int = 1
    per: Literal["gpu", "node"] = "node"
    ranks_per_node: int | None = None  # instead of `per`


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLimits:
    """The limits of a trial: its steps, its time, its time without any output.

    Args:
        steps: Number of steps after which a trial ends; default: the program ends by itself.
        timeout_s: Time limit of a trial in seconds.
        hang_after_s: Seconds without output, compile or step after which a trial is ended.
    """

    steps: int | None = None
    timeout_s: float | None = None
    hang_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialJob:
    """One execution of the user's command.

    Args:
        name: Unique in the study; letters, digits, dots and dashes.
        command: The user's.
        directory: The final directory of its Run, wherever it is written first.
        settings: Applied on top of the inherited environment.
        environment: More variables, verbatim; None as a value unsets one.
        shape: The number of nodes and processes.
        limits: When it is ended.
        window: The steps or seconds to profile, if any.
    """

    name: str
    command: tuple[str, ...]
    directory: Path
    settings: Settings = field(default_factory=Settings)
    environment: Mapping[str, str | None] = field(default_factory=lambda: _NONE)
    shape: ProcessShape = field(default_factory=ProcessShape)
    limits: TrialLimits = field(default_factory=TrialLimits)
    window: ProfileSchedule | None = None


class StoppedWaiting(CounterpointError):
    """The tuner was stopped while it waited for nodes; the request is withdrawn."""


class GangEndKind(StrEnum):
    """The cause of the end, as far as the executor knows it; the Run knows the rest."""

    EXITED = "exited"
    KILLED = "killed"  # by the tuner
    PREEMPTED = "preempted"
    NODE_FAULT = "node fault"
    LOST = "lost"  # the cause is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class GangEnd:
    """The end of a gang: the exit code of the process that failed first, if there is one."""

    kind: GangEndKind
    exit_code: int | None = None
    detail: str = ""


class Gang(Protocol):
    """All processes of one trial, which start and end together."""

    @property
    def identity(self) -> str:
        """The text by which `Executor.sweep` finds it again after the death of the tuner."""
        ...

    def poll(self) -> GangEnd | None:
        """Return how it ended; None while it runs. When it has ended, the Run here is complete."""
        ...

    def kill(self) -> None:
        """End all of its processes, and return when none is left."""
        ...


@runtime_checkable
class QueuedGang(Protocol):
    """A gang that may have to wait for its nodes, as a batch job does; most have theirs already."""

    def is_queued(self) -> bool:
        """True until its first process starts; its time limit does not run meanwhile."""
        ...


class Allocation(Protocol):
    """Nodes that are held until it is closed, for jobs that run one after another."""

    @property
    def identity(self) -> str:
        """Like `Gang.identity`, for the whole allocation."""
        ...

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes."""
        ...

    def start(self, job: TrialJob) -> Gang:
        """Start a job, one at a time; raise a UsageError if it can't be started at all."""
        ...

    def close(self) -> None:
        """End whatever runs there, and release the nodes."""
        ...


class Executor(Protocol):
    """A place where trials run."""

    @property
    def name(self) -> str:
        """Its `ExecutorKind.name`."""
        ...

    def open(self) -> Allocation:
        """Wait for a new allocation. Ctrl-C leaves nothing behind.

        Executors that may wait long have a `stopped` callback: once it returns true they raise
        StoppedWaiting, and leave nothing behind either.
        """
        ...

    def sweep(self, identity: str) -> None:
        """End the processes that an earlier tuner left under that identity, if any."""
        ...

    def describe(self) -> str:
        """Return a human-readable description: `local: 1 node, 2 processes`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRequest(Generic[Options]):
    """The options from which an executor is made.

    Args:
        shape: The nodes of a trial, and the processes on each.
        options: The executor's own options.
        environ: The environment in which the executor was requested.
        say: Receives reports while nodes are waited for.
        stopped: Ends such a wait once it is true.
        ending: How long processes have that are asked to end.
        study: The directory of the study, if it is known.
    """

    shape: ProcessShape = field(default_factory=ProcessShape)
    options: Options
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    say: Callable[[str], None] = lambda _: None
    stopped: Callable[[], bool] = lambda: False
    ending: EndingTimes = USUAL_TIMES
    study: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorKind(Generic[Options]):
    """All that the rest of Counterpoint knows about an executor.

    Args:
        name: Its name on the command line and in the journal.
        summary: What it is, for the help of the command line.
        make: Makes it; refuses at once what it would refuse later.
        options: Its own options, as a dataclass: the command line has each field.
        variables: Any of these in the environment selects it if no executor is named.
        is_here: Its trials run on this machine, with its programs and on its GPUs.
        holds_nodes: It holds an allocation's nodes; if one is lost, so is the allocation.
        has_own_python: Its nodes may have another Python than this machine.
        gpus_elsewhere: Checks the options by themselves, and returns the GPUs that they request on
            each node (0: none are known); None if trials may run on this machine's GPUs.
        nodes_around: Returns how many nodes the environment has been given already, if any.
    """

    name: str
    summary: str
    make: Callable[[PlaceRequest[Options]], Executor]
    options: type[Options]
    variables: tuple[str, ...] = ()
    is_here: bool = False
    holds_nodes: bool = False
    has_own_python: bool = False
    gpus_elsewhere: Callable[[PlaceRequest[Options]], int | None] = lambda _: None
    nodes_around: Callable[[Mapping[str, str]], int | None] = lambda _: None


def wait_for(
    gang: Gang, limits: TrialLimits, stop: Callable[[], bool], *, grace_s: float = _GRACE_S
) -> GangEnd:
    """Wait for the end of a gang; kill it when `stop` is true, or `grace_s` after its time limit.

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
                return GangEnd(kind=GangEndKind.KILLED, detail="the tuner was asked to stop")
            now = time.monotonic()
            if isinstance(gang, QueuedGang) and gang.is_queued():
                began = now
            if limits.timeout_s is not None and now - began > limits.timeout_s + grace_s:
                gang.kill()
                detail = (
                    f"still running {grace_s:g} s after its time limit of {limits.timeout_s:g} s"
                )
                return GangEnd(kind=GangEndKind.KILLED, exit_code=TIMED_OUT, detail=detail)
            time.sleep(_LOOK_S)
    except BaseException:
        with suppress(CounterpointError):  # the first failure is the one to report
            gang.kill()
        raise


def shape_text(shape: ProcessShape) -> str:
    """Describe a shape: `2 nodes, a process per GPU`."""
    nodes = f"{shape.nodes} node{'' if shape.nodes == 1 else 's'}"
    count = shape.ranks_per_node
    if count is not None:
        return f"{nodes}, {count} process{'' if count == 1 else 'es'} on each"
    return f"{nodes}, a process per {'GPU' if shape.per == 'gpu' else 'node'}"


def ranks_on_node(shape: ProcessShape, nodes: int, gpus: int, place: str) -> int:
    """Return the number of processes on each node of a place with so many nodes and GPUs on each.

    Raise a UsageError if it has too few of them.
    """
    if shape.nodes > nodes:
        raise UsageError(
            f"{shape.nodes} nodes, but {place} has {nodes}", next=f"use --nodes {nodes}"
        )
    if shape.ranks_per_node is not None:
        return shape.ranks_per_node
    if shape.per == "gpu" and not gpus:
        raise UsageError(
            f"one process per GPU was requested, but {place} has no GPUs",
            next="use --ranks-per-node 1",
        )
    return gpus if shape.per == "gpu" else 1


def rank_command(
    job: TrialJob, *, starts_ranks: bool = False, program: tuple[str, ...] = _HERE
) -> tuple[str, ...]:
    """Return the command of a rank; the caller sets `TrialJob.environment`.

    `program` starts Counterpoint: by default this one, on a machine that shares our Python. With
    `starts_ranks` it is one command for all ranks of this machine, which starts them itself;
    otherwise a launcher has started each rank. `-P` keeps files of the working directory from being
    imported as Python modules.
    """
    return (
        *(*program, "run"),
        *option_words(
            {
                "name": job.name,
                "out": job.directory.absolute(),
                **_profile(job.window),
                **_limits(job.limits),
                "set": tuple(f"{name}={value}" for name, value in job.settings.xla),
                "env": tuple(f"{name}={value}" for name, value in job.settings.env),
                **(_ranks(job.shape) if starts_ranks else {}),
            }
        ),
        "--",
        *job.command,
    )


def _profile(window: ProfileSchedule | None) -> dict[str, object]:
    if window is None:
        return {"no_profile": True}
    processes = window.processes
    return {
        "profile_start_step": window.start_step,
        "profile_steps": window.steps,
        "profile_after_quiet": window.quiet_s,
        "profile_seconds": window.seconds,
        "processes": None if processes == "all" else ",".join(map(str, processes)),
    }


def _limits(limits: TrialLimits) -> dict[str, object]:
    return {
        "timeout": limits.timeout_s,
        "hang_after": limits.hang_after_s,
        "stop_after_steps": limits.steps,
    }


def _ranks(shape: ProcessShape) -> dict[str, object]:
    if shape.ranks_per_node is not None:
        return {"ranks": shape.ranks_per_node}
    return {"per": shape.per}


def settings_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the tuner that are settings, and so apply to its trials.

    The others describe the tuner's machine, or are secret; machines that don't share its
    environment have their own.
    """
    return {
        name: text
        for name, text in environ.items()
        if name.startswith(_SETTINGS) and not name.startswith(_NOT_SETTINGS)
    }
