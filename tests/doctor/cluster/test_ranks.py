"""Several real processes that meet as ranks of a launcher do: on this machine, over TCP."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from counterpoint.core.errors import InputError
from counterpoint.doctor.cluster.attending import attend_meeting
from counterpoint.doctor.cluster.meeting import read_meeting
from counterpoint.doctor.cluster.report import Report

pytestmark = pytest.mark.slow

COUNTERPOINT = (sys.executable, "-m", "counterpoint", "doctor", "--cluster", "--no-probe")
QUICK = ("--only", "hosts-differ,clocks-apart,missing-ranks,open-files,versions", "--json")


def slurm(rank: int, size: int) -> dict[str, str]:
    return {
        "SLURM_PROCID": str(rank),
        "SLURM_NTASKS": str(size),
        "SLURM_LOCALID": "0",
        "SLURM_JOB_ID": "42",
        "SLURM_STEP_ID": "0",
        "SLURM_NNODES": "1",
    }


class Ranks:
    """Ranks that were started; those left over are ended."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.started: list[subprocess.Popen[str]] = []

    def start(
        self, variables: dict[str, str], *options: str, command: tuple[str, ...] = COUNTERPOINT
    ) -> subprocess.Popen[str]:
        names = ("SLURM_", "OMPI_", "PMI", "NCCL_", "XLA_", "JAX_", "JOB_", "TPU_", "MEGASCALE_")
        plain = {name: text for name, text in os.environ.items() if not name.startswith(names)}
        process = subprocess.Popen(
            [*command, *options],
            cwd=self.cwd,
            env=plain | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def wait_for_meeting(self) -> Path:
        for _ in range(1200):
            for path in self.cwd.glob(".counterpoint-doctor-*.json"):
                if read_meeting(path):
                    return path
            time.sleep(0.05)
        raise AssertionError("rank 0 wrote no file")

    def left_over(self) -> list[str]:
        return [path.name for path in self.cwd.iterdir()]


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    found = Ranks(tmp_path)
    yield found
    for process in found.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def said(text: str) -> dict[str, dict[str, Any]]:
    """Verdicts by check."""
    return {one["name"]: one for one in json.loads(text)["verdicts"]}


def attending(path: Path, clock: Callable[[], int]) -> Future[int]:
    """Rank 1 on another host, in a thread of the test."""
    report = Report(1, "node9", (), {"python": "3.9.0"})
    found: Future[int] = Future()

    def attend() -> None:
        try:
            found.set_result(attend_meeting(report, path, 120.0, clock))
        except InputError as failure:
            found.set_exception(failure)

    threading.Thread(target=attend, daemon=True).start()
    return found


def test_rank_0_prints_what_all_found_and_the_others_nothing(ranks: Ranks) -> None:
    words = (*QUICK, "--ranks", "2", "--meet", str(ranks.cwd))
    started = [ranks.start({"JOB_COMPLETION_INDEX": str(rank)}, *words) for rank in range(2)]
    ended = [process.communicate(timeout=120) for process in started]
    assert [err for _, err in ended] == ["", ""]
    assert [out for out, _ in ended][1:] == [""]
    told = said(ended[0][0])
    assert told["missing-ranks"]["found"] == "all 2 ranks reported"
    assert told["clocks-apart"]["found"] == "all ranks are on one host: one clock"
    assert told["hosts-differ"]["status"] == "ok"
    assert len({process.returncode for process in started}) == 1
    assert ranks.left_over() == []


@pytest.mark.usefixtures("slurm")
def test_ranks_of_a_real_srun_find_each_other(tmp_path: Path) -> None:
    done = subprocess.run(
        ["srun", "-N3", "--ntasks-per-node=1", *COUNTERPOINT, *QUICK],  # noqa: S607
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    told = said(done.stdout)
    assert told["missing-ranks"]["found"] == "all 3 ranks reported"
    assert told["hosts-differ"]["status"] == "ok"
    assert list(tmp_path.iterdir()) == []


def test_a_clock_that_is_off_and_a_host_that_differs_are_told_to_all(ranks: Ranks) -> None:
    first = ranks.start(slurm(0, 2), *QUICK)
    other = attending(ranks.wait_for_meeting(), lambda: time.time_ns() + 1_300_000_000)
    out, _ = first.communicate(timeout=120)
    told, data = said(out), json.loads(out)
    clock = data["clocks"]["node9"]
    assert abs(clock["ahead_ms"] - 1300) <= clock["within_ms"]
    assert told["clocks-apart"]["status"] == "warning"
    assert any("3.9.0 on node9" in one["found"] for one in data["verdicts"])
    assert (first.returncode, other.result(60)) == (1, 1)


def test_a_rank_that_never_comes_is_named(ranks: Ranks) -> None:
    first = ranks.start(slurm(0, 2), *QUICK, "--timeout", "0.5")
    out, _ = first.communicate(timeout=120)
    assert said(out)["missing-ranks"]["found"] == "1 of 2 ranks did not report within 0.5 s: 1"
    assert first.returncode == 1
    assert ranks.left_over() == []


def test_interrupting_rank_0_leaves_nothing_and_ends_the_others(ranks: Ranks) -> None:
    first = ranks.start(slurm(0, 3), *QUICK)
    came = threading.Event()

    def clock() -> int:
        came.set()
        return time.time_ns()

    other = attending(ranks.wait_for_meeting(), clock)
    assert came.wait(120)
    first.send_signal(signal.SIGINT)
    assert first.communicate(timeout=120) == ("", "interrupted\n")
    assert first.returncode == 130
    with pytest.raises(InputError, match="rank 0 has gone"):
        other.result(60)
    assert ranks.left_over() == []


def test_under_a_real_mpirun(ranks: Ranks) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun (Debian: apt-get install openmpi-bin)")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    launch = ("mpirun", "--oversubscribe", "-n", "2")
    done = ranks.start(root, *COUNTERPOINT, *QUICK, command=launch)
    out, err = done.communicate(timeout=120)
    told = said(out.replace("\r\n", "\n"))
    assert told["missing-ranks"]["found"] == "all 2 ranks reported", err
