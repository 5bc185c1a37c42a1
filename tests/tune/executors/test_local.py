"""Trials on this machine."""

from __future__ import annotations

import os
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.core.errors import UsageError
from counterpoint.runs.outcomes import TIMED_OUT
from counterpoint.runs.reader import read_run
from counterpoint.tune.executors.executor import GangEndKind, ProcessShape, TrialJob, TrialLimits
from counterpoint.tune.executors.local import Local, read_cpus, read_gpus
from tune.executors.contract import (
    MARK,
    SOON,
    Contract,
    FreshContract,
    alive,
    ended,
    stubborn,
    wait_until,
)


@pytest.mark.system
class TestLocal(Contract, FreshContract):
    construct = (
        "from counterpoint.tune.executors.local import Local\n"
        "from counterpoint.tune.executors.executor import ProcessShape\n"
        "from counterpoint.tune.executors.process_supervisor import EndingTimes\n"
        f"executor = Local(shape=ProcessShape(ranks_per_node=2), ending={SOON})\n"
    )
    two = ProcessShape(ranks_per_node=2)
    other = (ProcessShape(), 1)


@pytest.mark.system
def test_a_time_limit_ends_a_rank_that_minds_no_signal(tmp_path: Path) -> None:
    mark, limits = uuid.uuid4().hex, TrialLimits(timeout_s=1)
    asked = replace(
        job(tmp_path, ""), command=stubborn(tmp_path), limits=limits, environment={MARK: mark}
    )
    assert ended(Local().open().start(asked), limits).exit_code == TIMED_OUT
    assert alive(mark) == []


def job(directory: Path, program: str) -> TrialJob:
    return TrialJob(
        name="pinned", command=(sys.executable, "-c", program), directory=directory / "run"
    )


@pytest.mark.smoke
@pytest.mark.system
def test_trials_keep_to_their_gpus_and_cpus(tmp_path: Path) -> None:
    one = min(os.sched_getaffinity(0))
    allocation = Local(gpus=("1", "3"), cpus=(one,)).open()
    program = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.sched_getaffinity(0))"
    asked = job(tmp_path, program)
    assert ended(allocation.start(asked)).exit_code == 0
    assert read_run(asked.directory).ranks[0].stdout.read_text() == f"1,3 {{{one}}}\n"


@pytest.mark.smoke
@pytest.mark.system
def test_a_supervisor_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    allocation = Local().open()
    asked = replace(
        job(tmp_path, "import time; time.sleep(3600)"), environment={MARK: mark, "KEEP": "1"}
    )
    gang = allocation.start(asked)
    wait_until(lambda: len(alive(mark)) >= 3, "the program never came")
    (supervisor,) = [it for it in Path("/proc").glob("[0-9]*") if is_supervisor(it, mark)]
    os.kill(int(supervisor.name), 9)
    assert ended(gang).kind is GangEndKind.LOST
    assert not alive(mark)


def is_supervisor(process: Path, mark: str) -> bool:
    try:
        marked = mark.encode() in (process / "environ").read_bytes()
        return marked and b"process_supervisor.py" in (process / "cmdline").read_bytes()
    except OSError:
        return False


def test_one_machine_is_one_node(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="2 nodes"):
        Local(shape=ProcessShape(nodes=2)).open()
    with pytest.raises(UsageError, match="2 nodes"):
        Local().open().start(replace(job(tmp_path, "pass"), shape=ProcessShape(nodes=2)))


def test_people_read_what_is_pinned() -> None:
    pinned = Local(shape=ProcessShape(ranks_per_node=2), gpus=("0", "1"), cpus=(0, 1, 2))
    assert pinned.describe() == "local: 1 node, 2 processes, GPU 0,1, 3 CPUs"
    assert Local().describe() == "local: 1 node, 1 process"


def test_gpus_are_those_that_we_may_use() -> None:
    shown = {"CUDA_VISIBLE_DEVICES": "0, 2,3", "PATH": ""}
    assert read_gpus("3,0", shown) == ("3", "0")
    with pytest.raises(UsageError, match="GPU 1 is not available") as refused:
        read_gpus("1,2", shown)
    assert refused.value.why == "CUDA_VISIBLE_DEVICES shows 0, 2, 3"
    with pytest.raises(UsageError, match="nvidia-smi lists none"):
        read_gpus("0", {"PATH": ""})
    for text in ("", "0,0", "x", "0-3"):
        with pytest.raises(UsageError, match="--gpus takes numbers"):
            read_gpus(text, shown)


def test_cpus_are_those_that_we_may_use() -> None:
    mine = sorted(os.sched_getaffinity(0))
    assert read_cpus(",".join(map(str, mine))) == tuple(mine)
    assert read_cpus(f"{mine[0]}-{mine[0]}") == (mine[0],)
    with pytest.raises(UsageError, match="CPU 60000 is not available"):
        read_cpus("60000")
    for text in ("", "a", "1-", "3-1", "-1", "0-9999999999"):
        with pytest.raises(UsageError, match="--cpus"):
            read_cpus(text)
