"""What befalls trials on a real Slurm: it is told whose fault it was, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from counterpoint.core.errors import UsageError
from counterpoint.runs.reader import read_run
from counterpoint.tune.executors.choose import ExecutorOptions, choose_executor
from counterpoint.tune.executors.executor import (
    Allocation,
    Gang,
    GangEndKind,
    ProcessShape,
    StoppedWaiting,
    TrialJob,
    TrialLimits,
    wait_for,
)
from counterpoint.tune.executors.slurm import Slurm
from counterpoint.tune.executors.slurm_batch import SlurmBatch
from counterpoint.tune.executors.slurm_control import SlurmOptions
from slurm_cluster import NODES, SlurmCluster
from tune.executors.contract import ended, wait_until

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("here")]

TWO = ProcessShape(nodes=2)
SLEEP = "import time; print('up', flush=True); time.sleep(3600)"


def on_slurm(text: str) -> ExecutorOptions:
    return ExecutorOptions(slurm=SlurmOptions(text))


@pytest.fixture
def here(slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    slurm.make_idle()


@contextmanager
def opened(executor: Slurm | SlurmBatch) -> Generator[Allocation]:
    allocation = executor.open()
    try:
        yield allocation
    finally:
        allocation.close()


def started(allocation: Allocation, program: str = SLEEP, shape: ProcessShape = TWO) -> Gang:
    directory = Path.cwd() / "run"
    gang = allocation.start(
        TrialJob(
            name="t",
            command=(sys.executable, "-c", program),
            directory=directory,
            shape=shape,
        )
    )
    if program == SLEEP:
        out = [directory / f"rank{rank}" / "stdout.log" for rank in range(shape.nodes)]
        wait_until(lambda: all(it.exists() and it.read_text() for it in out), "no rank came up")
    return gang


def test_a_node_that_fails_is_not_the_arm_s_fault(slurm: SlurmCluster) -> None:
    with opened(Slurm(shape=TWO)) as allocation:
        gang = started(allocation)
        node = allocation.nodes[1]
        slurm.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        told = ended(gang)
        assert told.kind is GangEndKind.NODE_FAULT
        after = allocation.start(TrialJob(name="after", command=("true",), directory=Path("after")))
        assert ended(after).kind in (GangEndKind.NODE_FAULT, GangEndKind.LOST)


def test_a_node_that_dies_unnoticed_is_not_the_arm_s_fault(slurm: SlurmCluster) -> None:
    """srun ends with 0 then, and Slurm may find out only after the step."""
    with opened(Slurm(shape=ProcessShape())) as allocation:
        gang = started(allocation, shape=ProcessShape())
        (node,) = allocation.nodes
        slurm.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        told = ended(gang)
        assert (told.kind, told.exit_code) == (GangEndKind.NODE_FAULT, None)


@pytest.mark.parametrize("kind", [Slurm, SlurmBatch])
def test_a_job_that_can_never_run_is_refused(
    slurm: SlurmCluster, kind: type[Slurm | SlurmBatch]
) -> None:
    five, heard = ProcessShape(nodes=5), list[str]()
    with (
        pytest.raises(UsageError, match="never start job") as refused,
        opened(kind(shape=five, options=("--partition=urgent",), say=heard.append)) as allocation,
    ):
        wait_for(started(allocation, "pass", five), TrialLimits(), lambda: False)
    assert "urgent has 4 nodes" in str(refused.value.why)
    assert any(": Partition" in it for it in heard)
    assert slurm.jobs() == []


def test_who_is_asked_to_stop_in_the_queue_leaves_it(slurm: SlurmCluster) -> None:
    slurm.ask("salloc", "--no-shell", "-N4", "--exclusive")
    heard: list[str] = []
    with pytest.raises(StoppedWaiting):
        Slurm(say=heard.append, stopped=lambda: bool(heard)).open()
    assert "queue for 1 node," in heard[0]
    assert len(slurm.jobs()) == 1


def test_what_slurm_would_refuse_is_refused_before_anything_is_asked_of_it() -> None:
    with pytest.raises(UsageError, match="--partition=nowhere") as refused:
        choose_executor(None, ProcessShape(), on_slurm("--partition=nowhere"))
    assert str(refused.value.why).endswith("specified: nowhere")
    assert choose_executor(None, ProcessShape(nodes=4), on_slurm("-p urgent")).name == "slurm"


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("--time=banana", "Invalid --time specification"),
        ("--bogus=1", "unrecognized option '--bogus=1'"),
        ("--mem=9x", "Invalid --mem specification"),
    ],
)
def test_options_that_slurm_can_t_read_are_refused_too(option: str, why: str) -> None:
    with pytest.raises(UsageError, match="accepts no job") as refused:
        choose_executor(None, ProcessShape(), on_slurm(option))
    assert why in str(refused.value.why)


def test_more_nodes_than_there_are_cpus_for_are_not_waited_for(slurm: SlurmCluster) -> None:
    with pytest.raises(UsageError, match="never start") as refused:
        Slurm(shape=ProcessShape(nodes=9)).open()
    assert "has 4 nodes" in str(refused.value.why)
    assert slurm.jobs() == []


def test_a_preempted_allocation_says_so(slurm: SlurmCluster) -> None:
    with opened(Slurm(shape=ProcessShape(nodes=4))) as allocation:
        gang = started(allocation)
        urgent = slurm.ask("sbatch", "--parsable", "-p", "urgent", "-N4", "--wrap", "sleep 1")
        assert ended(gang).kind is GangEndKind.PREEMPTED
        assert urgent


def test_an_allocation_that_is_cancelled_is_not_the_arm_s_fault(slurm: SlurmCluster) -> None:
    with opened(Slurm(shape=TWO)) as allocation:
        gang = started(allocation)
        slurm.ask("scancel", *slurm.jobs())
        told = ended(gang)
        assert (told.kind, "canceled Slurm's job" in told.detail) == (GangEndKind.PREEMPTED, True)


def test_a_batch_job_waits_in_the_queue_and_can_be_killed_there(slurm: SlurmCluster) -> None:
    heard: list[str] = []
    slurm.ask("salloc", "--no-shell", "-N4", "--exclusive")
    with opened(SlurmBatch(shape=TWO, say=heard.append)) as allocation:
        gang = started(allocation, "pass")
        told = wait_for(gang, TrialLimits(timeout_s=0.01), lambda: bool(heard), grace_s=0)
        assert (told.kind, told.exit_code) == (GangEndKind.KILLED, None)  # its time had not begun
        assert "Slurm's queue" in heard[0]
        assert len(slurm.jobs()) == 1
        assert allocation.nodes == ()


def test_a_batch_job_that_is_cancelled_is_not_the_arm_s_fault(slurm: SlurmCluster) -> None:
    with opened(SlurmBatch(shape=TWO)) as allocation:
        gang = started(allocation)
        slurm.ask("scancel", *slurm.jobs())
        assert ended(gang).kind is GangEndKind.PREEMPTED
        assert allocation.nodes == NODES[:2]


def test_ctrl_c_in_the_queue_leaves_no_job(slurm: SlurmCluster, tmp_path: Path) -> None:
    slurm.ask("salloc", "--no-shell", "-N4", "--exclusive")
    for number, code in ((signal.SIGINT, 1), (signal.SIGKILL, -signal.SIGKILL)):
        program = (
            "from counterpoint.tune.executors.process_supervisor import EndingTimes\n"
            "from counterpoint.tune.executors.slurm import Slurm\n"
            "ending = EndingTimes(apart_s=0.5, patience_s=1)\n"
            "Slurm(say=lambda text: print(text, flush=True), ending=ending).open()\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as tuner:
            assert tuner.stdout is not None
            assert "Slurm's queue" in tuner.stdout.readline()
            assert len(slurm.jobs()) == 2
            tuner.send_signal(number)
            assert tuner.wait() in (code, -number)
        wait_until(lambda: len(slurm.jobs()) == 1, "the job that waits was left behind")


def test_what_slurm_refuses_is_told_in_its_words() -> None:
    with pytest.raises(UsageError, match="no allocation of 1 node") as refused:
        Slurm(options=("--partition=nowhere",)).open()
    assert "invalid partition" in str(refused.value.why)
    with (
        opened(SlurmBatch(options=("--partition=nowhere",))) as allocation,
        pytest.raises(UsageError, match="accepts no job") as refused,
    ):
        started(allocation, "pass")
    assert "invalid partition" in str(refused.value.why)


@pytest.mark.parametrize("kind", [Slurm, SlurmBatch])
def test_gpus_are_counted_and_dealt_out(kind: type[Slurm | SlurmBatch]) -> None:
    program = "import os; print(os.environ.get('JAX_LOCAL_DEVICE_IDS'))"
    with opened(kind(shape=TWO, options=("--gres=gpu:2",))) as allocation:
        assert ended(started(allocation, program)).exit_code == 0
        told = [rank.stdout.read_text() for rank in read_run("run").ranks]
        assert told == ["0,1\n"] * 2  # else JAX takes the first one only
        os.rename("run", "run0")  # noqa: PTH104
        gang = started(allocation, program, ProcessShape(nodes=2, per="gpu"))
        assert ended(gang).exit_code == 0
        told = [rank.stdout.read_text() for rank in read_run("run").ranks]
        assert told == ["None\n"] * 4  # JAX has each take the one of its place


def test_a_process_per_gpu_needs_gpus() -> None:
    per_gpu, shared = (
        ProcessShape(per="gpu"),
        ("--oversubscribe",),
    )  # alone one gets all GPUs unasked
    with (
        opened(Slurm(options=shared)) as allocation,
        pytest.raises(UsageError, match="has no GPUs"),
    ):
        started(allocation, "pass", per_gpu)
    with opened(SlurmBatch(options=shared)) as allocation:
        told = ended(started(allocation, "pass", per_gpu))
        assert told.exit_code == 2
        assert "has none" in told.detail


def test_more_nodes_than_there_are_is_refused() -> None:
    with opened(Slurm()) as allocation, pytest.raises(UsageError, match="2 nodes, but Slurm"):
        started(allocation, "pass")


def test_a_tuner_within_a_job_that_is_over_is_told() -> None:
    with pytest.raises(UsageError, match="unknown to Slurm"):
        Slurm(within="4242").open()
