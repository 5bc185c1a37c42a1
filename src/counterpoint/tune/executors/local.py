"""Local: trials on this machine, as child processes, on the GPUs and CPUs that they may use."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterpoint.capture.ranks import count_gpus
from counterpoint.core import CounterpointError, UsageError
from counterpoint.tune.executors.executor import (
    ExecutorKind,
    GangEnd,
    GangEndKind,
    PlaceRequest,
    ProcessShape,
    TrialJob,
    rank_command,
)
from counterpoint.tune.executors.exit_report import exit_report, launcher_log
from counterpoint.tune.executors.process_supervisor import (
    USUAL_TIMES,
    EndingTimes,
    start_supervised,
    supervised,
)

MARK: Final = "COUNTERPOINT_GANG"
"""The variable by which all processes of a gang can be found, whatever their parents."""
_BUSY_S: Final = 30.0
"""A supervisor on a very busy machine may need this much longer than it should."""
_LIMIT_S: Final = 120.0
"""Time limit for processes to disappear after SIGKILL."""
_OF_LAUNCHERS: Final = ("SLURM_PROCID", "SLURM_STEP_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""Variables of a launcher that may have started the tuner; they do not apply to its trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """This machine, or the GPUs and CPUs of it that trials may use."""

    shape: ProcessShape = field(default_factory=ProcessShape)
    gpus: tuple[str, ...] | None = None
    cpus: tuple[int, ...] | None = None
    ending: EndingTimes = USUAL_TIMES

    @property
    def name(self) -> str:
        return LOCAL.name

    def open(self) -> LocalAllocation:
        """Return an allocation at once: there is no queue."""
        refuse_nodes(self.shape)
        return LocalAllocation(self, uuid.uuid4().hex)

    def sweep(self, identity: str) -> None:
        """End all processes with the mark of a gang, or of an allocation."""
        executor, _, mark = identity.partition(":")
        if executor == self.name and mark:
            kill_marked(mark)

    def describe(self) -> str:
        count = self.shape.ranks_per_node
        if count is None and self.shape.per == "gpu":
            count = len(self.gpus) if self.gpus else count_gpus(os.environ)
        parts = ["1 node", f"{count or 1} process{'' if count in (None, 1) else 'es'}"]
        if self.gpus is not None:
            parts.append(f"GPU {','.join(self.gpus)}")
        if self.cpus is not None:
            parts.append(f"{len(self.cpus)} CPUs")
        return f"{self.name}: {', '.join(parts)}"


class LocalAllocation:
    """The machine, for one tuner: its jobs share a mark, by which they are found."""

    def __init__(self, executor: Local, mark: str) -> None:
        self._executor = executor
        self._mark = mark

    @property
    def identity(self) -> str:
        return f"{self._executor.name}:{self._mark}"

    @property
    def nodes(self) -> tuple[str, ...]:
        return (socket.gethostname(),)

    def start(self, job: TrialJob) -> LocalGang:
        """Start a job. If its program can't be executed, that shows when the gang has ended."""
        refuse_nodes(job.shape)
        job.directory.parent.mkdir(parents=True, exist_ok=True)
        command = rank_command(job, starts_ranks=True)
        with launcher_log(job.directory).open("wb") as output:
            supervisor = start_supervised(
                supervised(
                    command,
                    with_tuner=True,
                    times=self._executor.ending,
                    cpus=self._executor.cpus or (),
                ),
                self._environment(job.environment),
                output,
            )
        patience_s = self._executor.ending.total_s() + _BUSY_S
        return LocalGang(supervisor, job.directory, self._mark, patience_s)

    def close(self) -> None:
        kill_marked(self._mark)

    def _environment(self, more: Mapping[str, str | None]) -> dict[str, str]:
        """Return our variables without a launcher's, which would misplace the trial's ranks."""
        variables = {name: text for name, text in os.environ.items() if name not in _OF_LAUNCHERS}
        if self._executor.gpus is not None:
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(self._executor.gpus)
        both = {**variables, **more, MARK: self._mark}
        return {name: text for name, text in both.items() if text is not None}


class LocalGang:
    """A supervisor, and all below it."""

    def __init__(
        self, supervisor: subprocess.Popen[bytes], directory: Path, mark: str, patience_s: float
    ) -> None:
        self._supervisor = supervisor
        self._directory = directory
        self._mark = mark
        self._patience_s = patience_s
        self._ended: GangEnd | None = None

    @property
    def identity(self) -> str:
        return f"{LOCAL.name}:{self._mark}"

    def poll(self) -> GangEnd | None:
        if self._ended is None and (code := self._supervisor.poll()) is not None:
            kill_marked(self._mark)  # there are some only if the supervisor itself was killed
            self._ended = (
                exit_report(self._directory, code)
                if code >= 0
                else GangEnd(kind=GangEndKind.LOST, detail=f"its supervisor died of signal {-code}")
            )
        return self._ended

    def kill(self) -> None:
        if self.poll() is not None:
            return
        self._supervisor.send_signal(signal.SIGTERM)
        until = time.monotonic() + self._patience_s
        while self._supervisor.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        kill_marked(self._mark)
        self._supervisor.wait()
        self._ended = GangEnd(kind=GangEndKind.KILLED)


def refuse_nodes(shape: ProcessShape) -> None:
    """Raise a UsageError for more than one node."""
    if shape.nodes != 1:
        raise UsageError(
            f"{shape.nodes} nodes, but the local executor has one",
            next="use --nodes 1",
        )


def kill_marked(mark: str) -> None:
    """Kill all processes of this machine with a gang's mark, and return when there are none."""
    until = time.monotonic() + _LIMIT_S
    while left := _marked(mark):
        if time.monotonic() > until:
            raise CounterpointError(
                f"processes {', '.join(map(str, left))} are still alive after SIGKILL",
                why="the kernel waits for a device or a file system on their behalf",
                next="repair or restart the machine; the measurements so far are kept",
            )
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _marked(mark: str) -> list[int]:
    """Return process IDs. The environment of a zombie is empty, so zombies are not among them."""
    sought = f"{MARK}={mark}".encode()
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if sought in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def read_gpus(text: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Parse GPUs as in CUDA_VISIBLE_DEVICES: numbers or UUIDs that this process may use."""
    named = tuple(part.strip() for part in text.split(","))
    bad = [part for part in named if not (part.isdecimal() or part.startswith(("GPU-", "MIG-")))]
    if bad or len(set(named)) < len(named):
        raise UsageError(
            f"--gpus takes numbers separated by commas, not {text!r}", next="use --gpus 0,1"
        )
    shown = environ.get("CUDA_VISIBLE_DEVICES")
    allowed = (
        tuple(part.strip() for part in shown.split(",") if part.strip())
        if shown is not None
        else tuple(map(str, range(count_gpus(environ))))
    )
    unknown = [part for part in named if part.isdecimal() and part not in allowed]
    if unknown:
        why = "CUDA_VISIBLE_DEVICES shows" if shown is not None else "nvidia-smi lists"
        raise UsageError(
            f"--gpus {text}: GPU {', '.join(unknown)} is not available",
            why=f"{why} {', '.join(allowed) or 'none'}",
        )
    return named


def read_cpus(text: str) -> tuple[int, ...]:
    """Parse CPUs as numbers and ranges, `0-3,8`, that this process may use."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or int(last or 0) > 1 << 16:
            raise UsageError(
                f"--cpus takes numbers and ranges, not {text!r}", next="use --cpus 0-3,8"
            )
        found |= set(range(int(first), int(last or first) + 1))
    allowed = os.sched_getaffinity(0)
    unknown = sorted(found - allowed)
    if unknown or not found:
        raise UsageError(
            f"--cpus {text}: CPU {', '.join(map(str, unknown[:8]))} is not available",
            why=f"this process may use {', '.join(map(str, sorted(allowed)[:64]))}",
        )
    return tuple(sorted(found))


@dataclass(frozen=True)
class LocalOptions:
    """Which part of this machine trials use.

    Args:
        gpus: GPUs of this machine to use: 0,1.
        cpus: CPUs of this machine to use: 0-7,16.
    """

    gpus: str | None = None
    cpus: str | None = None


def _make(request: PlaceRequest[LocalOptions]) -> Local:
    refuse_nodes(request.shape)
    gpus, cpus = request.options.gpus, request.options.cpus
    return Local(
        shape=request.shape,
        gpus=None if gpus is None else read_gpus(gpus, request.environ),
        cpus=None if cpus is None else read_cpus(cpus),
        ending=request.ending,
    )


LOCAL: Final = ExecutorKind(
    name="local",
    summary="this machine",
    make=_make,
    options=LocalOptions,
    is_here=True,
)
