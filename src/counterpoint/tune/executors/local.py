"""Local: trials on this machine, as processes of ours."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterpoint.capture.world import count_gpus
from counterpoint.core.errors import UsageError
from counterpoint.tune.executors.executor import Ended, EndedKind, Job, Shape
from counterpoint.tune.executors.kept import MARK, kept, start_kept, with_us
from counterpoint.tune.executors.marked import kill_marked
from counterpoint.tune.executors.rank_command import rank_command
from counterpoint.tune.executors.told import launcher_log, told

_PATIENCE_S: Final = 60.0
"""A keeper is done long before, unless the machine is very busy."""
_OF_LAUNCHERS: Final = ("SLURM_PROCID", "SLURM_STEP_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""By these a process knows that a launcher has started it: the tuner perhaps, not its trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """This machine, or the GPUs and CPUs of it that trials are to have (pins.py checks them)."""

    shape: Shape = field(default_factory=Shape)
    gpus: tuple[str, ...] | None = None
    cpus: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        return "local"

    def open(self) -> LocalAllocation:
        """There is nothing to wait for: the machine is here."""
        refuse_nodes(self.shape)
        return LocalAllocation(self, uuid.uuid4().hex)

    def sweep(self, identity: str) -> None:
        """End what carries the mark of a gang, or of an allocation."""
        place, _, mark = identity.partition(":")
        if place == self.name and mark:
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

    def start(self, job: Job) -> LocalGang:
        """A UsageError where a program can't be started; a keeper of ours always can."""
        refuse_nodes(job.shape)
        job.directory.parent.mkdir(parents=True, exist_ok=True)
        options = {"with": with_us()}
        if self._executor.cpus is not None:
            options["cpus"] = ",".join(map(str, self._executor.cpus))
        log = launcher_log(job.directory)
        with log.open("wb") as output:
            keeper = start_kept(
                kept(rank_command(job, starts_ranks=True), **options),
                self._environment(job.environment),
                output,
            )
        return LocalGang(keeper, job.directory, log, self._mark)

    def close(self) -> None:
        kill_marked(self._mark)

    def _environment(self, more: Mapping[str, str | None]) -> dict[str, str]:
        """Ours, without what would make ranks of a launcher out of the trial's."""
        variables = {name: text for name, text in os.environ.items() if name not in _OF_LAUNCHERS}
        if self._executor.gpus is not None:
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(self._executor.gpus)
        return changed(variables, more) | {MARK: self._mark}


class LocalGang:
    """A keeper, and all below it."""

    def __init__(
        self, keeper: subprocess.Popen[bytes], directory: Path, log: Path, mark: str
    ) -> None:
        self._keeper = keeper
        self._directory = directory
        self._log = log
        self._mark = mark
        self._ended: Ended | None = None

    @property
    def identity(self) -> str:
        return f"local:{self._mark}"

    def poll(self) -> Ended | None:
        if self._ended is None and (code := self._keeper.poll()) is not None:
            kill_marked(self._mark)  # only where somebody killed the keeper itself is there any
            self._ended = (
                told(self._directory, code, self._log)
                if code >= 0
                else Ended(kind=EndedKind.LOST, detail=f"its keeper died of signal {-code}")
            )
        return self._ended

    def kill(self) -> None:
        if self.poll() is not None:
            return
        self._keeper.send_signal(signal.SIGTERM)
        until = time.monotonic() + _PATIENCE_S
        while self._keeper.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        kill_marked(self._mark)
        self._keeper.wait()
        self._ended = Ended(kind=EndedKind.KILLED)


def changed(inherited: Mapping[str, str], more: Mapping[str, str | None]) -> dict[str, str]:
    """The environment with more variables; None unsets one."""
    both = {**inherited, **more}
    return {name: text for name, text in both.items() if text is not None}


def refuse_nodes(shape: Shape) -> None:
    """An error where more is asked for than this machine."""
    if shape.nodes != 1:
        raise UsageError(
            f"{shape.nodes} nodes, but trials are to run on this machine",
            next="--nodes 1",
        )
