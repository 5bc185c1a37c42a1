"""Several real processes that meet as ranks of a launcher do: on this machine, over TCP."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counterpoint.doctor.cluster.meeting import Meeting, read_meeting, write_meeting

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
def test_rank_0_prints_what_all_found_and_the_others_nothing(ranks: Ranks, launcher: Any) -> None:
    started = [ranks.start(launcher(rank, 3), *QUICK) for rank in range(3)]
    ended = [process.communicate(timeout=60) for process in started]
    assert [err for _, err in ended] == ["", "", ""]
    assert [out for out, _ in ended][1:] == ["", ""]
    told = said(ended[0][0])
    assert told["missing-ranks"]["found"] == "all 3 ranks reported"
    assert told["clocks-apart"]["status"] == "ok"
    assert told["hosts-differ"]["status"] == "ok"
    assert len({process.returncode for process in started}) == 1
    assert ranks.left_over() == []


def test_a_clock_that_is_off_and_a_host_that_differs_are_told_to_all(ranks: Ranks) -> None:
    first = ranks.start(slurm(0, 3), *QUICK)
    second = ranks.start(slurm(1, 3), *QUICK)
    third = ranks.start(slurm(2, 3), command=(sys.executable, "-c", OFF))
    told = said(first.communicate(timeout=60)[0])
    assert told["clocks-apart"]["found"].startswith("node9's clock is 1.30")
    assert told["clocks-apart"]["status"] == "warning"
    assert any("python: 3.9.0 on node9" in one["found"] for one in json_verdicts(told))
    assert [it.wait(60) for it in (first, second, third)] == [1, 1, 1]


def json_verdicts(told: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return list(told.values())


def test_a_rank_that_never_comes_is_named_and_the_others_end(ranks: Ranks) -> None:
    started = [ranks.start(slurm(rank, 3), *QUICK, "--timeout", "4") for rank in (0, 2)]
    out, _ = started[0].communicate(timeout=60)
    assert said(out)["missing-ranks"]["found"] == "1 of 3 ranks did not report within 4 s: 1"
    assert [process.wait(60) for process in started] == [1, 1]
    assert ranks.left_over() == []


def test_a_late_rank_still_takes_part(ranks: Ranks) -> None:
    first = ranks.start(slurm(0, 2), *QUICK)
    ranks.wait_for_meeting()
    time.sleep(1)
    second = ranks.start(slurm(1, 2), *QUICK)
    assert "all 2 ranks" in said(first.communicate(timeout=60)[0])["missing-ranks"]["found"]
    assert second.wait(60) == first.returncode


def test_a_rank_that_comes_when_all_is_over_says_so(ranks: Ranks) -> None:
    late = ranks.start(slurm(1, 2), "--timeout", "1")
    _, err = late.communicate(timeout=60)
    assert late.returncode == 3
    assert err.startswith("error: rank 1 did not reach rank 0 within 1 s")
    assert "did not appear" in err


def test_a_rank_that_dies_on_the_way_is_missing(ranks: Ranks) -> None:
    first = ranks.start(slurm(0, 2), *QUICK, "--timeout", "4")
    meeting = read_meeting(ranks.wait_for_meeting())
    assert meeting
    with socket.create_connection(("127.0.0.1", meeting.port)) as connection:
        nonce = json.loads(connection.makefile().readline())["nonce"]
        proof = meeting.proof("rank", nonce, "1")
        message = json.dumps({"rank": 1, "proof": proof, "nonce": "n"})
        connection.sendall(f"{message}\n".encode() + b'{"rank": 1, "ho')
    out, _ = first.communicate(timeout=60)
    assert said(out)["missing-ranks"]["found"].endswith("1 (it came, and left)")
    assert first.returncode == 1


def test_a_stranger_is_sent_away_and_does_no_harm(ranks: Ranks) -> None:
    first = ranks.start(slurm(0, 2), *QUICK)
    meeting = read_meeting(ranks.wait_for_meeting())
    assert meeting
    assert meeting.token
    for words in (b"GET / HTTP/1.0\r\n\r\n", b'{"rank": 1, "proof": "guessed", "nonce": "n"}\n'):
        with socket.create_connection(("127.0.0.1", meeting.port), timeout=10) as connection:
            lines = connection.makefile()
            assert "nonce" in lines.readline()
            connection.sendall(words)
            answer = lines.readline()
            assert not answer or "refused" in answer
    second = ranks.start(slurm(1, 2), *QUICK)
    assert "all 2 ranks" in said(first.communicate(timeout=60)[0])["missing-ranks"]["found"]
    assert second.wait(60) == first.returncode


def test_a_file_of_an_earlier_run_does_no_harm(ranks: Ranks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = int(nobody.getsockname()[1])
    path = ranks.cwd / ".counterpoint-doctor-slurm-42.0.json"
    write_meeting(path, Meeting(("127.0.0.1",), port, "old"))
    second = ranks.start(slurm(1, 2), *QUICK)
    time.sleep(1)
    first = ranks.start(slurm(0, 2), *QUICK)
    assert "all 2 ranks" in said(first.communicate(timeout=60)[0])["missing-ranks"]["found"]
    assert second.wait(60) == first.returncode
    assert ranks.left_over() == []


def test_the_file_is_its_owner_s_only(tmp_path: Path) -> None:
    path = tmp_path / "meeting.json"
    write_meeting(path, Meeting(("127.0.0.1",), 1, "secret"))
    assert path.stat().st_mode & 0o777 == 0o600


def test_interrupting_rank_0_leaves_nothing_and_ends_the_others(ranks: Ranks) -> None:
    first = ranks.start(slurm(0, 3), *QUICK)
    ranks.wait_for_meeting()
    second = ranks.start(slurm(1, 3), *QUICK)
    time.sleep(3)
    first.send_signal(signal.SIGINT)
    assert first.communicate(timeout=60) == ("", "interrupted\n")
    assert first.returncode == 130
    _, err = second.communicate(timeout=60)
    assert (second.returncode, "rank 0 has gone" in err) == (3, True)
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
