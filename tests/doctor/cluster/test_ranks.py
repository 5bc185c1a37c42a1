"""Real processes that exchange reports as ranks of a launcher do, on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from counterpoint.core.errors import InputError
from counterpoint.doctor.cluster.exchange import send_report
from counterpoint.doctor.result import HostReport

pytestmark = pytest.mark.system

COUNTERPOINT = (sys.executable, "-m", "counterpoint", "doctor", "--cluster", "--no-probe")
QUICK = ("--only", "hosts-differ,missing-ranks,open-files,versions", "--json")


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

    def wait_for(self, name: str) -> Path:
        for _ in range(1200):
            for path in self.cwd.glob(f".counterpoint-doctor-*/{name}"):
                return path
            time.sleep(0.05)
        raise AssertionError(f"{name} never came")

    def left_over(self) -> list[str]:
        return [path.name for path in self.cwd.iterdir()]


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as found:
        yield found


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    found = Ranks(tmp_path)
    yield found
    for process in found.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def verdicts(text: str) -> dict[str, dict[str, Any]]:
    """Verdicts by check."""
    return {one["name"]: one for one in json.loads(text)["verdicts"]}


def answering(threads: ThreadPoolExecutor, path: Path) -> Future[int]:
    """Rank 1 on another host, in a thread of the test."""
    report = HostReport(rank=1, host="node9", verdicts=(), compared={"python": "3.9.0"})
    return threads.submit(send_report, report, path.parent, 120.0)


def test_rank_0_prints_what_all_found_and_the_others_nothing(ranks: Ranks) -> None:
    words = (*QUICK, "--ranks", "2", "--meet", str(ranks.cwd))
    started = [ranks.start({"JOB_COMPLETION_INDEX": str(rank)}, *words) for rank in range(2)]
    ended = [process.communicate(timeout=120) for process in started]
    assert [err for _, err in ended] == ["", ""]
    assert [out for out, _ in ended][1:] == [""]
    found = verdicts(ended[0][0])
    assert found["missing-ranks"]["found"] == "all 2 ranks reported"
    assert found["hosts-differ"]["status"] == "ok"
    assert len({process.returncode for process in started}) == 1
    assert ranks.left_over() == []


def srun(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["srun", "-N3", "--ntasks-per-node=1", *words],  # noqa: S607
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.usefixtures("slurm")
def test_ranks_of_a_real_srun_find_each_other(tmp_path: Path) -> None:
    done = srun(tmp_path, *COUNTERPOINT, *QUICK)
    found = verdicts(done.stdout)
    assert found["missing-ranks"]["found"] == "all 3 ranks reported"
    assert found["hosts-differ"]["status"] == "ok"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("slurm")
def test_a_node_that_never_reports_is_named_under_a_real_srun(tmp_path: Path) -> None:
    script = '[ "$SLURM_PROCID" = 1 ] || exec "$@" --timeout 30'
    done = srun(tmp_path, "sh", "-c", script, "sh", *COUNTERPOINT, *QUICK)
    (line,) = [
        one["found"] for one in json.loads(done.stdout)["verdicts"] if one["code"] == "DOC603"
    ]
    assert line == "1 of 3 ranks did not report within 30 s: 1 (no report from 127.0.0.2)"
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_a_host_that_differs_is_named_and_all_get_one_exit_code(
    ranks: Ranks, threads: ThreadPoolExecutor
) -> None:
    first = ranks.start(slurm(0, 2), *QUICK)
    other = answering(threads, ranks.wait_for("rank0.json"))
    out, _ = first.communicate(timeout=120)
    assert any("3.9.0 on node9" in one["found"] for one in json.loads(out)["verdicts"])
    assert (first.returncode, other.result(60)) == (1, 1)


def test_a_rank_that_never_comes_is_named(ranks: Ranks) -> None:
    first = ranks.start(slurm(0, 2), *QUICK, "--timeout", "0.5")
    out, _ = first.communicate(timeout=120)
    assert verdicts(out)["missing-ranks"]["found"] == "1 of 2 ranks did not report within 0.5 s: 1"
    assert first.returncode == 1
    assert ranks.left_over() == []


def test_interrupting_rank_0_leaves_nothing_and_ends_the_others(
    ranks: Ranks, threads: ThreadPoolExecutor
) -> None:
    first = ranks.start(slurm(0, 3), *QUICK)
    other = answering(threads, ranks.wait_for("rank0.json"))
    ranks.wait_for("rank1.json")
    first.send_signal(signal.SIGINT)
    assert first.communicate(timeout=120) == ("", "interrupted\n")
    assert first.returncode == 130
    with pytest.raises(InputError, match="rank 0 ended before"):
        other.result(60)
    assert ranks.left_over() == []


def test_a_job_that_was_killed_does_not_count_in_the_next_one(ranks: Ranks) -> None:
    """The same number of a job, as after a restart of Slurm's controller with an empty state."""
    killed = ranks.start(slurm(0, 2), *QUICK)
    ranks.wait_for("rank0.json")
    killed.kill()
    killed.wait()
    started = [ranks.start(slurm(rank, 2), *QUICK) for rank in (1, 0)]
    ended = [process.communicate(timeout=120) for process in started]
    assert verdicts(ended[1][0])["missing-ranks"]["found"] == "all 2 ranks reported"
    assert len({process.returncode for process in started}) == 1
    assert ranks.left_over() == []


def test_under_a_real_mpirun(ranks: Ranks) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun (Debian: apt-get install openmpi-bin)")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    launch = ("mpirun", "--oversubscribe", "-n", "2")
    done = ranks.start(root, *COUNTERPOINT, *QUICK, command=launch)
    out, err = done.communicate(timeout=120)
    found = verdicts(out.replace("\r\n", "\n"))
    assert found["missing-ranks"]["found"] == "all 2 ranks reported", err
