"""Reports of all ranks, exchanged as JSON files in a shared directory and merged by rank 0.

    rank 0   rank0.json   a session, which is a random word; at the end also the exit code for all
                          ranks, and the words of the ranks whose reports it has read
    others   rankN.json   the session that the rank answers, its own random word, its report

Files of an earlier job may still be there. Rank 0 accepts only answers to its own session, and a
rank accepts an exit code only if rank 0 lists the rank's word, so old files are never used.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, TypeVar
from uuid import uuid4

import msgspec

from counterpoint.capture.ranks import KUBERNETES, TPU, LocalRank, World, find_world
from counterpoint.core import InputError, UsageError
from counterpoint.core.arguments import Retry
from counterpoint.core.outputs import write_whole
from counterpoint.core.rules import DocumentedRule
from counterpoint.doctor.checks import results_of
from counterpoint.doctor.cluster import hosts_differ, missing_ranks
from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.gather.tools import run_tool
from counterpoint.doctor.result import (
    CheckResult,
    Checkup,
    HostReport,
    HostReports,
    merge_results,
)

PODS: Final = "pods"
"""Stands in for a launcher's name: every rank is a host, or a pod, of its own."""

_EXAMPLE: Final = "counterpoint doctor --cluster --rank 0 --ranks 2 --meet /shared"


def find_ranks(environ: Mapping[str, str], rank: int | None, ranks: int | None) -> World:
    """Return the ranks from the options, else from the launcher, a TPU slice or a job's pods."""
    if rank is None and ranks is None:
        world = find_world(environ)
        if world is not None:
            return replace(world, launcher=PODS) if world.launcher in (KUBERNETES, TPU) else world
    if rank is None and (index := environ.get("JOB_COMPLETION_INDEX", "")).isdecimal():
        rank = int(index)  # Kubernetes sets it, but no number of pods
    if rank is None and ranks is None:
        raise UsageError(
            "`cluster=`: no launcher started this process",
            why="srun and mpirun set the rank of each process; without them, use `rank=`, `ranks=`"
            " and `meet=`",
            next="srun --ntasks-per-node=1 counterpoint doctor --cluster",
        )
    if rank is None or ranks is None:
        missing = "`rank=R`" if rank is None else "`ranks=N`"
        raise UsageError(
            f"`cluster=`: {missing} is missing",
            why="the environment does not set it",
            next=_EXAMPLE,
        )
    if not 0 <= rank < ranks:
        raise UsageError(f"`cluster=`: rank {rank} of {ranks}: ranks are 0 to N - 1", next=_EXAMPLE)
    return World(PODS, ranks, (LocalRank(rank, 0),))


def exchange_directory(meet: Path | None, world: World) -> Path:
    """Return the directory of this job's ranks, the same on all of them; rank 0 creates it.

    Under a launcher it defaults to the current directory, which the steps of a job share. Its name
    contains the number of Slurm's job and step.
    """
    if meet is None and world.launcher == PODS and world.size > 1:
        raise UsageError(
            "`cluster=`: `meet=DIR` is missing",
            why="without a launcher, the shared directory is unknown",
            next=Retry({"meet": "/shared"}, remark="a directory on a volume that all ranks mount"),
        )
    job = re.sub(r"[^\w.-]+", "-", world.job or "")[:80] or world.size
    return (meet or Path()) / f".counterpoint-doctor-{world.launcher}-{job}"


_LOOK_S: Final = 0.2
_GRACE_S: Final = 30.0
"""Rank 0 may start waiting later than the others, and it merges before it answers."""
_GONE_S: Final = 3.0
"""A file that is being replaced may be missing for a moment on a network file system."""


class _Session(msgspec.Struct):
    session: str
    exit_code: int | None = None
    heard: list[str] = []


class _Answer(msgspec.Struct):
    session: str
    word: str
    report: HostReport


_File = TypeVar("_File", _Session, _Answer)


def collect_reports(
    own: HostReport, size: int, directory: Path, seconds: float, end: Callable[[HostReports], int]
) -> int:
    """On rank 0: wait for the reports, and pass the exit code that `end` returns to all ranks."""
    first, session = _file(directory, 0), uuid4().hex
    answers: dict[int, _Answer] = {}
    try:
        with _usable(directory):
            directory.mkdir(mode=0o700, exist_ok=True)
            _write(first, _Session(session))
            _wait(lambda: _hear_all(directory, size, session, answers), seconds)
        reports = (own, *(answers[rank].report for rank in sorted(answers)))
        code = end(HostReports(size=size, seconds=seconds, reports=reports))
        with _usable(directory):
            _write(first, _Session(session, code, [answered.word for answered in answers.values()]))
        _wait(lambda: not any(_file(directory, rank).exists() for rank in answers), _GRACE_S)
        return code
    finally:
        ours = _read(first, _Session)
        if ours is not None and ours.session == session:
            shutil.rmtree(directory, ignore_errors=True)


def send_report(report: HostReport, directory: Path, seconds: float) -> int:
    """On every other rank: write the report, and wait for the exit code from rank 0."""
    own, word, answered = _file(directory, report.rank), uuid4().hex, ""
    since = seen = time.monotonic()
    try:
        while True:
            now = time.monotonic()
            session = _read(_file(directory, 0), _Session)
            if session is not None:
                seen = now
                if session.exit_code is not None and word in session.heard:
                    return session.exit_code
                if session.session != answered:
                    with _usable(directory), suppress(FileNotFoundError):  # rank 0 has just ended
                        _write(own, _Answer(session.session, word, report))
                        answered, since = session.session, now
            elif answered and now - seen > _GONE_S:
                raise _lost(report.rank, "rank 0 ended before it merged all reports")
            limit = seconds + _GRACE_S if answered else seconds
            if now - since > limit:
                what = "did not answer" if answered else f"wrote no file to {directory.absolute()}"
                raise _lost(report.rank, f"rank 0 {what} within {limit:g} s")
            time.sleep(_LOOK_S)
    finally:
        with suppress(OSError):
            own.unlink()


def _hear_all(directory: Path, size: int, session: str, answers: dict[int, _Answer]) -> bool:
    """Read the answers that have arrived since the last call; return whether all are in."""
    names = set(os.listdir(directory))  # noqa: PTH208
    for rank in set(range(1, size)) - answers.keys():
        if _file(directory, rank).name in names:
            found = _read(_file(directory, rank), _Answer)
            if found is not None and found.session == session and found.report.rank == rank:
                answers[rank] = found
    return len(answers) == size - 1


def _wait(done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(_LOOK_S)


def _file(directory: Path, rank: int) -> Path:
    return directory / f"rank{rank}.json"


def _write(path: Path, content: msgspec.Struct) -> None:
    """Write a file atomically, so that no reader sees half of it."""
    write_whole(path, msgspec.json.encode(content))


def _read(path: Path, kind: type[_File]) -> _File | None:
    """Return the content of a file; None if it does not exist or has another structure."""
    try:
        os.close(os.open(path.parent, os.O_RDONLY))  # makes NFS look for new files
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, RecursionError, msgspec.MsgspecError):
        return None


@contextmanager
def _usable(directory: Path) -> Generator[None]:
    try:
        yield
    except OSError as failure:
        raise UsageError(
            f"{directory.parent}: ranks can't exchange files in it: {failure.strerror}",
            why="each rank writes its report there, and rank 0 merges them",
            next=Retry({"meet": "/shared"}, remark="a writable directory that all hosts see"),
        ) from None


def _lost(rank: int, what: str) -> InputError:
    return InputError(
        f"rank {rank}: {what}",
        why="rank 0 failed (see its output), did not start, or uses another directory",
        next=Retry({"meet": "/shared"}, remark="a directory that all hosts see"),
    )


class ClusterCheck(DocumentedRule, Protocol):
    """A pure function of the reports of all ranks."""

    def check(self, host_reports: HostReports) -> Iterator[CheckResult]:
        """Yield at least one verdict."""
        ...


CLUSTER_CHECKS: Final[tuple[ClusterCheck, ...]] = (hosts_differ, missing_ranks)
"""All comparisons, by code."""


def report_of(rank: int, facts: HostFacts, verdicts: Sequence[CheckResult]) -> HostReport:
    """Return the report of this process."""
    return HostReport(
        rank=rank,
        host=facts.host,
        node=os.environ.get("SLURMD_NODENAME", ""),
        verdicts=tuple(verdicts),
        compared=dict(hosts_differ.comparable(facts)),
    )


def exchange_and_report(
    report: HostReport,
    size: int,
    directory: Path,
    seconds: float,
    show: Callable[[HostReports], int],
) -> int:
    """Return the exit code, the same on all ranks; `show` runs on rank 0 only, and returns it."""
    if report.rank:
        return send_report(report, directory, seconds)
    if size == 1:
        return show(HostReports(size=1, seconds=seconds, reports=(report,)))
    return collect_reports(report, size, directory, seconds, show)


def merge_reports(reports: HostReports, comparisons: Sequence[ClusterCheck]) -> Checkup:
    """Merge the reports: differences between hosts first, then the verdicts of each host."""
    if reports.missing:
        nodes = run_tool(
            ("scontrol", "show", "hostnames", os.environ.get("SLURM_STEP_NODELIST", ""))
        )
        reports = replace(reports, nodes=tuple((nodes or "").split()))
    together = [
        verdict
        for comparison in comparisons
        for verdict in results_of(comparison, comparison.check, reports)
    ]
    by_host = [(report.host, report.verdicts) for report in reports.reports]
    return merge_results(by_host, together, ranks=reports.size)
