"""The digest at the end of a run: two lines of its profile, which never get in its way."""

from __future__ import annotations

import os
import re
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from xspace_builder import US, hlo_proto, kernel, metadata, nvidia, xspace

from counterpoint.cli.digest import digest_lines, digest_of_compared
from counterpoint.core.basis import Unknown
from counterpoint.report.pgle.feedback_document import times_line
from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import Run, RunSettings
from counterpoint.runs.scores import Score
from counterpoint.runs.writer import RankStart, RunStart, RunWriter

STEP = ("jit_step", 7)
HLO = {"fusion.1": "fusion", "all-reduce.1": "all-reduce"}
OK = Outcome(OutcomeKind.OK, 0)


def profile() -> bytes:
    """Six steps of 10 us on one GPU: 6 us of compute, 2 of all-reduce, 2 of nothing."""
    gpu = nvidia(0)
    for step in range(6):
        start = step * 10 * US
        stream = "Stream #20(Compute)"
        kernel(gpu, stream, "fusion_1", start, 6 * US, op="fusion.1", module=STEP)
        reduce = "ncclDevKernel_AllReduce_Sum"
        kernel(gpu, stream, reduce, start + 6 * US, 2 * US, op="all-reduce.1", module=STEP)
    return xspace(gpu, metadata({STEP: hlo_proto("jit_step", HLO)}))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the profile of a run's only rank is to lie."""
    writer = RunWriter.claim(
        tmp_path / "run",
        RunStart(
            name="train",
            command=("python", "train.py"),
            cwd=str(tmp_path),
            settings=RunSettings((), ()),
            launcher="local",
            world_size=1,
            version="0",
            job=None,
        ),
    )
    directory = writer.add_rank(0)
    writer.start_rank(RankStart(0, 0, {}, None, None, profile=True), os.getpid())
    writer.end_rank(0, OK)
    writer.end()
    session = directory / "profile" / "plugins" / "profile" / "2026_01_01"
    session.mkdir(parents=True)
    return session / "host.xplane.pb"


def run_of(place: Path) -> Run:
    return read_run(next(it for it in place.parents if it.name == "run"))


@pytest.mark.system
def test_step_time_and_largest_loss(place: Path) -> None:
    place.write_bytes(profile())
    step, loss = digest_lines(run_of(place))
    assert step.startswith("step time     0.0100 ms median, ")
    assert "measured by" in step
    assert loss.startswith("largest loss  STEP")
    assert " per step " in loss
    assert ": saves 0 to " in loss


def test_a_run_that_failed_has_none(place: Path) -> None:
    place.write_bytes(profile())
    failed = replace(run_of(place), outcome=Outcome(OutcomeKind.ERROR, 1))
    assert list(digest_lines(failed)) == []


def test_nor_has_one_without_a_profile(place: Path) -> None:
    assert list(digest_lines(run_of(place))) == []


@pytest.mark.system
def test_a_profile_that_cannot_be_read_is_said_in_a_line(place: Path) -> None:
    place.write_bytes(profile()[:200])
    (line,) = digest_lines(run_of(place))
    assert line.startswith("digest   none: ")
    assert "host.xplane.pb" in line


def test_a_large_profile_is_left_alone(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(1 << 33)
    (line,) = digest_lines(run_of(place))
    assert line.startswith("digest   none: 8.0 GiB ")


@pytest.mark.system
def test_reading_takes_bounded_time(place: Path) -> None:
    os.mkfifo(place)  # nobody writes to it
    (line,) = digest_lines(run_of(place), seconds=1)
    assert line.startswith("digest   none: ")
    assert line.endswith(" 1 s")


@pytest.mark.system
def test_ctrl_c_breaks_off_the_digest_and_not_the_run(place: Path) -> None:
    os.mkfifo(place)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    try:
        interrupt.start()
        (line,) = digest_lines(run_of(place))
    finally:
        interrupt.cancel()
        signal.signal(signal.SIGINT, before)
    assert line.startswith("digest   none: ")
    assert line.endswith(" interrupted")


@pytest.mark.system
def test_of_compared_runs_both_times_and_the_loss_that_is_left(place: Path) -> None:
    place.write_bytes(profile())
    run = run_of(place)
    bare = replace(run, ranks=())
    times = times_line([Score(0.0123, 9, "log", 0), Unknown("?")], [Unknown("?")], Unknown("why"))
    assert re.findall(r"12\.30 ms|\?", times) == ["12.30 ms", "?"]
    step, loss = digest_of_compared(times, (bare, run))
    assert step == f"step time     {times}"
    assert loss.startswith("largest loss  STEP")
    assert loss.endswith("; in run")
    assert list(digest_of_compared(times, (bare,))) == [step]
