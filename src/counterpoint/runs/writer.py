"""Writes a Run directory: claimed by one job, each rank by one process, nothing overwritten."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from counterpoint.core import CounterpointError, UsageError, WriteError, unused_path
from counterpoint.runs import layout
from counterpoint.runs.layout import is_run
from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.runs.processes import start_of
from counterpoint.runs.reader import read_run, when
from counterpoint.runs.records import (
    RankManifest,
    RunManifest,
    RunSettingsRecord,
    SupervisorProcess,
    read_record,
    record_bytes,
)
from counterpoint.runs.run import RunSettings

__all__ = ["RankStart", "RunStart", "RunWriter"]


LOCAL: Final = "local"
"""The launcher of ranks that one Counterpoint starts: no other process joins those."""
_RESERVED: Final = 64 * 1024
RUNNING: Final = Outcome(OutcomeKind.RUNNING)


@dataclass(frozen=True, slots=True)
class RunStart:
    """Properties of a run at its start; `job` is the launcher's name for it."""

    name: str
    command: tuple[str, ...]
    cwd: str
    settings: RunSettings
    launcher: str
    world_size: int
    version: str
    job: str | None = None

    def has_room(self, path: Path, rank: int) -> bool:
        """Return False if the directory belongs to another job, or has this rank already."""
        if layout.rank_directory(path, rank).exists():
            return False
        try:
            _refuse_foreign(path, self)
        except FileNotFoundError:
            return True
        except (OSError, UsageError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class RankStart:
    """Properties of a rank at its start."""

    number: int
    local_rank: int = 0
    environment: Mapping[str, object] | None = None
    xla_dump_to: str | None = None
    jax_dump_ir_to: str | None = None
    profile: bool = False


class RunWriter:
    """Writes the manifests of one Run directory. `claim` creates the directory."""

    def __init__(self, path: Path, start: RunStart, *, created: bool) -> None:
        self.path = path
        self._start = start
        self._created = created
        self._began_s = time.monotonic()
        self._ranks: dict[int, RankManifest] = {}

    @classmethod
    def claim(cls, path: Path, start: RunStart) -> RunWriter:
        """Create the directory, or join it if another rank of the same job has created it."""
        try:
            created = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
            _refuse_foreign(path, start)
            if _publish(path / layout.MANIFEST, record_bytes(_manifest(start))):
                return cls(path, start, created=created)
            _refuse_other_job(path, start)
        except OSError as failure:
            raise _unwritable(path, failure) from None
        return cls(path, start, created=False)

    def add_rank(self, number: int) -> Path:
        """Create the directory of a rank; it must not exist yet."""
        directory = layout.rank_directory(self.path, number)
        try:
            directory.mkdir()
        except FileExistsError:
            raise _taken(self.path, f"it already has a rank {number}") from None
        except OSError as failure:
            raise _unwritable(directory, failure) from None
        try:
            (directory / layout.AGENT).mkdir()
            with (directory / layout.RESERVE).open("xb") as reserve:
                reserve.write(bytes(_RESERVED))
                os.fsync(reserve.fileno())
        except OSError as failure:
            shutil.rmtree(directory, ignore_errors=True)
            raise _unwritable(directory, failure) from None
        return directory

    def start_rank(self, rank: RankStart, pid: int) -> None:
        """Record that the process of a rank runs, and which process will record its end."""
        keeper = os.getpid()
        self._ranks[rank.number] = RankManifest(
            rank=rank.number,
            local_rank=rank.local_rank,
            host=socket.gethostname(),
            pid=pid,
            pid_started=start_of(pid),
            keeper=SupervisorProcess(keeper, start_of(keeper)),
            started=_now(),
            outcome=RUNNING,
            environment={**(rank.environment or {})},
            xla_dump_to=rank.xla_dump_to,
            jax_dump_ir_to=rank.jax_dump_ir_to,
            profile_asked=rank.profile,
        )
        self._write_rank(rank.number)

    def end_rank(self, number: int, outcome: Outcome) -> None:
        """Record how a rank ended, in the space reserved for it."""
        directory = layout.rank_directory(self.path, number)
        rank = self._ranks[number]
        rank.ended, rank.outcome = self._ended(rank.started), outcome
        (directory / layout.RESERVE).unlink(missing_ok=True)
        self._write_rank(number)

    def end(self) -> None:
        """Record how the run ended, once all its ranks have: the last one to end does it."""
        run = read_run(self.path)
        if run.outcome.kind is OutcomeKind.RUNNING:
            return
        manifest = read_record(self.path / layout.MANIFEST, RunManifest)
        manifest.state, manifest.ended = "ended", self._ended(manifest.started)
        manifest.outcome = run.outcome
        _replace(self.path / layout.MANIFEST, record_bytes(manifest))

    def _ended(self, started: str | None) -> str:
        """Return the time now; if the clock was set back, the start and what has passed since."""
        now, began = datetime.now(UTC), when(started)
        passed = timedelta(seconds=time.monotonic() - self._began_s)
        return _text(now if began is None else max(now, began + passed))

    def withdraw(self, ranks: Iterable[int]) -> None:
        """Remove ranks that did not start, and the run if it has no other."""
        for number in ranks:
            shutil.rmtree(layout.rank_directory(self.path, number), ignore_errors=True)
        with suppress(OSError):
            if not layout.rank_numbers(self.path):
                (self.path / layout.MANIFEST).unlink()
                if self._created:
                    self.path.rmdir()

    def _write_rank(self, number: int) -> None:
        place = layout.rank_directory(self.path, number) / layout.RANK_MANIFEST
        _replace(place, record_bytes(self._ranks[number]))


def _manifest(start: RunStart) -> RunManifest:
    return RunManifest(
        schema=layout.SCHEMA,
        version=start.version,
        name=start.name,
        command=start.command,
        cwd=start.cwd,
        started=_now(),
        state="running",
        settings=RunSettingsRecord(start.settings.xla, dict(start.settings.env)),
        ranks=start.world_size,
        launcher=start.launcher,
        job=start.job,
        outcome=RUNNING,
    )


def _refuse_foreign(path: Path, start: RunStart) -> None:
    """Refuse a directory that holds other things."""
    names = sorted(
        entry.name for entry in path.iterdir() if not entry.name.startswith(".run.json.")
    )
    if not names:
        return
    if (path / layout.MANIFEST).exists():  # other ranks of this job may have come first
        _refuse_other_job(path, start)
        return
    raise _taken(path, f"it contains {', '.join(names[:3])}")


def _refuse_other_job(path: Path, start: RunStart) -> None:
    """Refuse a directory of another job.

    Some launchers give a job no name. Then the program's name must match: a rank that already
    exists is refused separately. Arguments may differ from rank to rank.
    """
    try:
        manifest = read_record(path / layout.MANIFEST, RunManifest)
        recorded = (manifest.launcher, manifest.job, manifest.ranks, manifest.name)
    except ValueError:
        recorded = None
    expected = (start.launcher, start.job, start.world_size, start.name)
    compared = 4 if start.job is None else 3
    if start.launcher == LOCAL or recorded is None or recorded[:compared] != expected[:compared]:
        raise _taken(path, "it contains a run" if is_run(path) else "it is not empty")


def _taken(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is in use: {why}",
        why="existing files are never overwritten",
        next=f"use -o {unused_path(path)}",
    )


def _unwritable(path: Path, failure: OSError) -> CounterpointError:
    return WriteError(path, failure, next="use -o to choose a writable directory with enough space")


def _now() -> str:
    return _text(datetime.now(UTC))


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _publish(path: Path, content: bytes) -> bool:
    """Create a file atomically, only if it does not exist."""
    part = _part(path, content)
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            return False
    finally:
        part.unlink(missing_ok=True)
    return True


def _replace(path: Path, content: bytes) -> None:
    _part(path, content).replace(path)


_OWN: Final = 0o600
"""The mode of records: the environment in them may hold tokens."""


def _part(path: Path, content: bytes) -> Path:
    part = path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWN), "wb") as file:
        file.write(content)
    return part
