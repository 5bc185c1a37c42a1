"""Ranks that exchange files, each a thread: late ones, dead ones, and files of an earlier job."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from counterpoint.core.errors import InputError, UsageError
from counterpoint.doctor.cluster.exchange import (
    HostReport,
    HostReports,
    collect_reports,
    send_report,
)

CODE = 7
LONG_S = 60.0


def report_of(rank: int) -> HostReport:
    return HostReport(rank=rank, host=f"node{rank}", verdicts=(), compared={"python": "3.12"})


@dataclass
class Job:
    """Ranks in threads, and what rank 0 gathered."""

    directory: Path
    threads: ThreadPoolExecutor
    seen: list[HostReports] = field(default_factory=list[HostReports])

    def collect(
        self, size: int, seconds: float = LONG_S, end: Callable[[], None] = lambda: None
    ) -> Future[int]:
        def finish(gathering: HostReports) -> int:
            self.seen.append(gathering)
            end()
            return CODE

        return self.threads.submit(
            collect_reports, report_of(0), size, self.directory, seconds, finish
        )

    def answer(self, rank: int, seconds: float = LONG_S) -> Future[int]:
        return self.threads.submit(send_report, report_of(rank), self.directory, seconds)

    def leave(self, name: str, **content: object) -> None:
        """Leave a file of an earlier job."""
        self.directory.mkdir(exist_ok=True)
        (self.directory / name).write_text(json.dumps(content))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with ThreadPoolExecutor(40) as threads:
        yield Job(tmp_path / "job", threads)


def until(true: Callable[[], bool]) -> None:
    for _ in range(6000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")


def old_report(rank: int, host: str = "of-an-earlier-job") -> dict[str, object]:
    return {"rank": rank, "host": host, "verdicts": [], "compared": {}}


def test_all_ranks_get_one_exit_code_and_nothing_is_left(job: Job) -> None:
    ranks = [job.collect(32), *(job.answer(rank) for rank in range(1, 32))]
    assert {one.result(LONG_S) for one in ranks} == {CODE}
    (seen,) = job.seen
    assert seen.missing == ()
    assert [report.host for report in seen.reports] == [f"node{rank}" for rank in range(32)]
    assert not job.directory.exists()


def test_a_late_rank_still_takes_part(job: Job) -> None:
    first = job.collect(2)
    until((job.directory / "rank0.json").exists)
    time.sleep(0.3)
    assert (job.answer(1).result(LONG_S), first.result(LONG_S)) == (CODE, CODE)


def test_a_rank_that_comes_before_rank_0_waits_for_it(job: Job) -> None:
    other = job.answer(1)
    time.sleep(0.3)
    assert (job.collect(2).result(LONG_S), other.result(LONG_S)) == (CODE, CODE)


def test_a_rank_without_a_rank_0_says_so(job: Job) -> None:
    with pytest.raises(InputError, match=r"rank 1: rank 0 wrote no file to .*job within 0.5 s"):
        job.answer(1, seconds=0.5).result(LONG_S)


def test_a_rank_that_never_comes_is_missing(job: Job) -> None:
    assert job.collect(3, seconds=0.5).result(LONG_S) == CODE
    assert job.seen[0].missing == (1, 2)
    assert not job.directory.exists()


def test_a_report_of_an_earlier_job_is_not_taken_for_ours(job: Job) -> None:
    job.leave("rank1.json", session="earlier", word="w", report=old_report(1))
    first = job.collect(2)
    until((job.directory / "rank0.json").exists)
    time.sleep(0.5)
    assert not first.done()
    assert (job.answer(1).result(LONG_S), first.result(LONG_S)) == (CODE, CODE)
    assert [report.host for report in job.seen[0].reports] == ["node0", "node1"]
    assert not job.directory.exists()


@pytest.mark.parametrize("ended", [{}, {"exit_code": 3, "heard": ["some", "words"]}])
def test_an_earlier_rank_0_is_not_taken_for_ours(job: Job, ended: dict[str, object]) -> None:
    job.leave("rank0.json", session="earlier", **ended)
    other = job.answer(1)
    until((job.directory / "rank1.json").exists)
    assert (job.collect(2).result(LONG_S), other.result(LONG_S)) == (CODE, CODE)
    assert job.seen[0].missing == ()


@pytest.mark.system  # waits for seconds
def test_files_of_another_shape_or_job_are_not_counted(job: Job) -> None:
    first = job.collect(11, seconds=4.0)
    until((job.directory / "rank0.json").exists)
    session = json.loads((job.directory / "rank0.json").read_text())["session"]
    answered = {"session": session, "word": "w"}
    contents = (
        b"",
        b"{",
        b"[]",
        b"\0",
        b"\xff",
        b'{"deep": ' + b"[" * 100_000,
        json.dumps({"session": 3}).encode(),
        json.dumps({**answered, "session": "earlier", "report": old_report(7)}).encode(),
        json.dumps({**answered, "report": {"rank": 8}}).encode(),
        json.dumps({**answered, "report": old_report(1)}).encode(),
    )
    for rank, content in enumerate(contents, 1):
        (job.directory / f"rank{rank}.json").write_bytes(content)
    assert first.result(LONG_S) == CODE
    assert job.seen[0].missing == tuple(range(1, 11))


@pytest.mark.system  # waits for seconds
def test_ranks_end_when_rank_0_fails(job: Job) -> None:
    def fail() -> None:
        raise RuntimeError("no disk to print on")

    first, other = job.collect(2, end=fail), job.answer(1)
    with pytest.raises(RuntimeError, match="no disk"):
        first.result(LONG_S)
    with pytest.raises(InputError, match="rank 1: rank 0 ended before it merged"):
        other.result(LONG_S)
    assert not job.directory.exists()


def test_a_second_rank_0_takes_over(job: Job) -> None:
    """As when two jobs get one directory: only the second one counts the answers to it."""
    older = job.collect(3)
    until((job.directory / "rank0.json").exists)
    other = job.answer(1)
    until((job.directory / "rank1.json").exists)
    newer = job.collect(2)
    assert (newer.result(LONG_S), other.result(LONG_S)) == (CODE, CODE)
    with pytest.raises(UsageError, match="ranks can't exchange files in it"):
        older.result(LONG_S)


def test_a_directory_that_can_t_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file: ranks can't exchange files in it: Not a"):
        collect_reports(report_of(0), 2, tmp_path / "file" / "job", 1.0, lambda _: 0)


def test_the_directory_is_its_owner_s_only(job: Job) -> None:
    first = job.collect(2)
    until((job.directory / "rank0.json").exists)
    assert job.directory.stat().st_mode & 0o777 == 0o700
    assert job.directory.stat().st_uid == os.getuid()
    assert (job.answer(1).result(LONG_S), first.result(LONG_S)) == (CODE, CODE)
