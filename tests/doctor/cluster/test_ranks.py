"""Several real processes that meet as ranks of a launcher do: on this machine, over TCP."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counterpoint.doctor.cluster.meeting import read_meeting

pytestmark = pytest.mark.slow

COUNTERPOINT = (sys.executable, "-m", "counterpoint", "doctor", "--cluster", "--no-probe")
QUICK = ("--only", "hosts-differ,clocks-apart,missing-ranks,open-files,versions", "--json")
OFF = """
import os, sys, time
from pathlib import Path
from counterpoint.capture.world import find_world
from counterpoint.doctor.cluster.attending import attend_meeting
from counterpoint.doctor.cluster.meeting import meeting_path
from counterpoint.doctor.cluster.report import Report
world = find_world(os.environ)
report = Report(world.seats[0].rank, "node9", (), {"python": "3.9.0"})
off = lambda: time.time_ns() + 1_300_000_000
raise SystemExit(attend_meeting(report, meeting_path(Path(), world), 30.0, off))
"""


def slurm(rank: int, size: int) -> dict[str, str]:
    return {
        "SLURM_PROCID": str(rank),
        "SLURM_NTASKS": str(size),
        "SLURM_LOCALID": "0",
        "SLURM_JOB_ID": "42",
        "SLURM_STEP_ID": "0",
        "SLURM_NNODES": "1",
    }


def openmpi(rank: int, size: int) -> dict[str, str]:
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(size),
        "PMIX_NAMESPACE": "prterun-node0-12@1",
    }


class Ranks:
    """Ranks that were started; those left over are ended."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.started: list[subprocess.Popen[str]] = []

    def start(
        self, variables: dict[str, str], *options: str, command: tuple[str, ...] = COUNTERPOINT
    ) -> subprocess.Popen[str]:
        names = ("SLURM_", "OMPI_", "PMI", "NCCL_", "XLA_", "JAX_")
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
        for _ in range(300):
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


@pytest.mark.parametrize("launcher", [slurm, openmpi])
def test_rank_0_prints_what_all_found_and_the_others_nothing(ranks: Ranks, launcher: Any) -> None:  # noqa: ANN401
    started = [ranks.start(launcher(rank, 2), *QUICK) for rank in range(2)]
    ended = [process.communicate(timeout=60) for process in started]
    assert [err for _, err in ended] == ["", ""]
    assert [out for out, _ in ended][1:] == [""]
    told = said(ended[0][0])
    assert told["missing-ranks"]["found"] == "all 2 ranks reported"
    assert told["clocks-apart"]["status"] == "ok"
    assert told["hosts-differ"]["status"] == "ok"
    assert len({process.returncode for process in started}) == 1
    assert ranks.left_over() == []


def test_a_clock_that_is_off_and_a_host_that_differs_are_told_to_all(ranks: Ranks) -> None:
    first = ranks.start(slurm(0, 3), *QUICK)
    second = ranks.start(slurm(1, 3), *QUICK)
    third = ranks.start(slurm(2, 3), command=(sys.executable, "-c", OFF))
    out, _ = first.communicate(timeout=60)
    told, verdicts = said(out), json.loads(out)["verdicts"]
    assert told["clocks-apart"]["found"].startswith("node9's clock is 1.30")
    assert told["clocks-apart"]["status"] == "warning"
    assert any("python: 3.9.0 on node9" in one["found"] for one in verdicts)
    assert [it.wait(60) for it in (first, second, third)] == [1, 1, 1]


def test_a_rank_that_never_comes_is_named_and_the_others_end(ranks: Ranks) -> None:
    started = [ranks.start(slurm(rank, 3), *QUICK, "--timeout", "2.5") for rank in (0, 2)]
    out, _ = started[0].communicate(timeout=60)
    assert said(out)["missing-ranks"]["found"] == "1 of 3 ranks did not report within 2.5 s: 1"
    assert [process.wait(60) for process in started] == [1, 1]
    assert ranks.left_over() == []


def test_interrupting_rank_0_leaves_nothing_and_ends_the_others(ranks: Ranks) -> None:
    first = ranks.start(slurm(0, 3), *QUICK)
    ranks.wait_for_meeting()
    second = ranks.start(slurm(1, 3), *QUICK, "--timeout", "12")
    time.sleep(3)  # on a busy machine it may still be on its way
    first.send_signal(signal.SIGINT)
    assert first.communicate(timeout=60) == ("", "interrupted\n")
    assert first.returncode == 130
    _, err = second.communicate(timeout=60)
    assert second.returncode == 3
    assert "rank 0 has gone" in err or "did not reach rank 0" in err
    assert ranks.left_over() == []


def test_a_directory_that_can_t_be_written_is_named(ranks: Ranks) -> None:
    first = ranks.start(slurm(0, 2), *QUICK, "--meet", "/proc")
    _, err = first.communicate(timeout=60)
    assert first.returncode == 2
    assert err.startswith("error: /proc: the ranks can't meet there")


def test_without_a_launcher_it_says_how_to_start(ranks: Ranks) -> None:
    alone = ranks.start({})
    _, err = alone.communicate(timeout=60)
    assert alone.returncode == 2
    assert "next: srun --ntasks-per-node=1 counterpoint doctor --cluster" in err


def test_under_a_real_mpirun(ranks: Ranks) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun (Debian: apt-get install openmpi-bin)")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    launch = ("mpirun", "--oversubscribe", "-n", "3")
    done = ranks.start(root, *COUNTERPOINT, *QUICK, command=launch)
    out, err = done.communicate(timeout=90)
    told = said(out.replace("\r\n", "\n"))
    assert told["missing-ranks"]["found"] == "all 3 ranks reported", err
