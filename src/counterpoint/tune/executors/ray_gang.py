"""A gang on a cluster of Ray: one job, as the tuner sees it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core.errors import CounterpointError, UsageError
from counterpoint.tune.executors.collect import unpack
from counterpoint.tune.executors.executor import Ended, EndedKind
from counterpoint.tune.executors.exit_report import exit_report, launcher_log
from counterpoint.tune.executors.ray_api import NO_RAY
from counterpoint.tune.executors.ray_jobs import Jobs
from counterpoint.tune.executors.ray_wire import Told, last

_LOOK_S: Final = 0.5
_SILENT_S: Final = 120.0
"""So long the dashboard may be silent before its cluster is taken to be lost."""
_TAIL: Final = 6
_NO_PYTHON: Final = "exit code 127"
"""What a shell says of a command that it does not find."""
_KINDS: Final = {
    "exited": EndedKind.EXITED,
    "killed": EndedKind.KILLED,
    "preempted": EndedKind.PREEMPTED,
    "node fault": EndedKind.NODE_FAULT,
    "lost": EndedKind.LOST,
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a gang belongs: its allocation, its Run, and the file that tells if nodes see it."""

    allocation: str
    directory: Path
    marker: Path


class RayGang:
    """One job, or two where the working directory turned out to have to travel.

    `ship` submits it again with the working directory; `clean` kills what a driver left that could
    not see to it itself.
    """

    def __init__(
        self,
        jobs: Jobs,
        identity: str,
        place: Place,
        *,
        ship: Callable[[Told], str],
        clean: Callable[[Jobs, list[str]], None],
    ) -> None:
        self._jobs = jobs
        self._identity = identity
        self._job = identity
        self._allocation = place.allocation
        self._directory = place.directory
        self._marker = place.marker
        self._ship = ship
        self._clean = clean
        self._ended: Ended | None = None
        self._looked = self._heard = time.monotonic()
        self._started = False

    @property
    def identity(self) -> str:
        return self._identity

    def is_queued(self) -> bool:
        """Until its ranks run: Ray sets up the environment of a job first."""
        return not self._started and self._ended is None

    def poll(self) -> Ended | None:
        if self._ended is None and time.monotonic() - self._looked >= _LOOK_S:
            self._looked = time.monotonic()
            self._ended = self._look()
        if self._ended is not None:
            self._marker.unlink(missing_ok=True)
        return self._ended

    def kill(self) -> None:
        if self._ended is None:
            self._jobs.stop([self._job])
            self._clean(self._jobs, [self._job])
            self._marker.unlink(missing_ok=True)
            self._ended = self._of(self._jobs.log(self._job)) or Ended(kind=EndedKind.KILLED)
            if self._ended.kind is EndedKind.LOST:
                self._ended = Ended(kind=EndedKind.KILLED)

    def _look(self) -> Ended | None:
        try:
            over, state = self._jobs.state(self._job)
            log = self._jobs.log(self._job)
        except (OSError, RuntimeError) as failure:
            if time.monotonic() - self._heard < _SILENT_S:
                return None
            return Ended(kind=EndedKind.LOST, detail=f"the cluster is silent: {failure}")
        self._heard = time.monotonic()
        self._started = self._started or last(log, "started") is not None
        if (ended := self._of(log)) is not None:
            self._clean(self._jobs, [self._job])
            return ended
        if (asked := last(log, "ship")) is not None:
            self._job = self._ship(asked)
            return None
        if not over:
            return None
        self._clean(self._jobs, [self._job])
        return Ended(kind=EndedKind.LOST, detail=_why(state, log))

    def _of(self, log: str) -> Ended | None:
        """How the driver says it ended, once its Run is here."""
        said = last(log, "ended")
        if said is None:
            return None
        kind, detail = _KINDS[str(said["how"])], str(said["detail"])
        if "file" in said and (failed := self._bring(said)) is not None:
            return Ended(kind=EndedKind.LOST, detail=failed)
        code = said["code"]
        if kind is not EndedKind.EXITED or not isinstance(code, int):
            return Ended(kind=kind, detail=detail)
        words = launcher_log(self._directory)
        if code and detail:
            words.write_text(detail + "\n", encoding="utf-8")
        return exit_report(self._directory, code)

    def _bring(self, said: Told) -> str | None:
        """Fetch the Run; what went wrong with that."""
        archive = self._directory.with_name(f".{self._directory.name}.zip")
        try:
            self._jobs.fetch(said, self._allocation, archive)
            unpack(archive, self._directory)
        except (OSError, CounterpointError) as failure:
            return f"its run did not come here: {failure}"
        finally:
            with suppress(OSError):
                archive.unlink(missing_ok=True)
        return None


def _why(state: str, log: str) -> str:
    lines = [line for line in log.strip().splitlines() if line.strip()]
    return "\n".join([f"its job ended without a word ({state})", *lines[-_TAIL:]])


def refused(identity: str, state: str, log: str) -> UsageError:
    """A driver that could not even begin."""
    if NO_RAY in log or _NO_PYTHON in state:
        told = [line for line in log.splitlines() if NO_RAY in line or "python" in line]
        return UsageError(
            "the cluster's jobs do not find Ray's Python",
            why=told[-1].strip() if told else state,
            next="start Ray on the head node where PATH has its environment first: "
            "`python -c 'import ray; ray.init'` has to work for its jobs",
        )
    return UsageError(
        f"the job {identity} did not come up on the cluster",
        why=_why(state, log),
        next=f"ray job logs {identity}",
    )
