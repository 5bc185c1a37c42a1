"""Which executor is meant, and that a place that is not there is refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.core.errors import UsageError
from counterpoint.tune.executors.choose import (
    EXECUTORS,
    NO_OPTIONS,
    ExecutorOptions,
    choose_executor,
    executor_kind,
)
from counterpoint.tune.executors.executor import ProcessShape
from counterpoint.tune.executors.kubernetes import KubernetesOptions
from counterpoint.tune.executors.local import LocalOptions
from counterpoint.tune.executors.slurm_control import SlurmOptions, fault, grant_of

SHAPE = ProcessShape()
ON_ONE_GPU = ExecutorOptions(local=LocalOptions(gpus="0"))


def on_slurm(text: str) -> ExecutorOptions:
    return ExecutorOptions(slurm=SlurmOptions(text))


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    """A PATH with commands that say what Slurm's would of a job of one node."""
    told = {"scontrol": "case $1 in ping) echo is UP;; *) echo JobState=RUNNING NodeList=n0;; esac"}
    for name in ("scontrol", "squeue", "scancel", "srun", "salloc", "sbatch"):
        (tmp_path / name).write_text(f"#!/bin/sh\n{told.get(name, '')}\n")
        (tmp_path / name).chmod(0o755)
    return {"PATH": str(tmp_path)}


def test_the_environment_suggests_where(tools: dict[str, str]) -> None:
    assert choose_executor(None, SHAPE, environ={}).name == "local"
    inside = choose_executor(None, SHAPE, environ={**tools, "SLURM_JOB_ID": "7"})
    assert inside.describe() == "slurm: steps of job 7, 1 node, a process per node"
    asked = choose_executor(None, ProcessShape(nodes=2), on_slurm("-p gpu"), environ=tools)
    assert asked.describe().startswith("slurm: steps of its own allocation, 2 nodes")
    batch = choose_executor("slurm-batch", SHAPE, environ={**tools, "SLURM_JOB_ID": "7"})
    assert batch.name == "slurm-batch"
    assert choose_executor("local", SHAPE, environ={"SLURM_JOB_ID": "7"}).name == "local"


def test_options_of_one_executor_name_it() -> None:
    assert (
        executor_kind(None, ExecutorOptions(kubernetes=KubernetesOptions("x.yaml")), {}).name
        == "kubernetes"
    )
    assert executor_kind(None, on_slurm("-p gpu"), {}).name == "slurm"
    assert executor_kind(None, ON_ONE_GPU, {}).name == "local"


def test_ray_is_meant_where_its_address_is() -> None:
    pytest.importorskip("ray")
    assert choose_executor(None, SHAPE, environ={"RAY_ADDRESS": "http://x:8265"}).name == "ray"


@pytest.mark.parametrize(
    ("name", "options", "more", "told"),
    [
        ("pbs", NO_OPTIONS, {}, "unknown executor 'pbs'"),
        ("slurm", NO_OPTIONS, {"PATH": "/nowhere"}, "scontrol is not on the PATH"),
        (
            "local",
            on_slurm("-p x"),
            {},
            "--slurm applies to the executor slurm, not to local",
        ),
        (
            "slurm",
            ON_ONE_GPU,
            {},
            "--gpus applies to the executor local, not to slurm",
        ),
        (
            "slurm",
            on_slurm("-p x"),
            {"SLURM_JOB_ID": "7"},
            "Slurm job 7 is already allocated",
        ),
        ("slurm", on_slurm("'"), {}, "can't be split into words"),
        ("slurm", NO_OPTIONS, {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}, "Slurm's step 7.0"),
        (
            "slurm",
            on_slurm("-p x --nodes=3"),
            {},
            "requests 3 nodes, but trials take 1",
        ),
        (
            "slurm-batch",
            on_slurm("-N 3"),
            {},
            "requests 3 nodes, but trials take 1",
        ),
        (
            "slurm",
            on_slurm("-N2-4"),
            {},
            "requests 2-4 nodes, but trials take 1",
        ),
        (
            "slurm-batch",
            on_slurm("--array=1-4"),
            {},
            "each trial is one job",
        ),
        (
            "slurm",
            on_slurm("-J mine"),
            {},
            "the tuner finds its jobs by their names",
        ),
    ],
)
def test_what_can_t_be_is_refused(
    tools: dict[str, str], name: str, options: ExecutorOptions, more: dict[str, str], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        choose_executor(name, SHAPE, options, environ={**tools, **more})


def test_what_says_the_same_twice_is_no_contradiction(tools: dict[str, str]) -> None:
    for words in ("--nodes=2", "-N2", "-N 2", "--nodes 2 --ntasks-per-node=1"):
        made = choose_executor(None, ProcessShape(nodes=2), on_slurm(words), environ=tools)
        assert words in made.describe()


@pytest.mark.parametrize("inside", [{}, {"SLURM_JOB_ID": "7"}])
def test_a_slurm_that_does_not_answer_is_told(
    tools: dict[str, str], tmp_path: Path, inside: dict[str, str]
) -> None:
    told = "#!/bin/sh\necho 'slurm_ping error: Unable to contact slurm controller' >&2\nexit 1\n"
    (tmp_path / "scontrol").write_text(told)
    with pytest.raises(UsageError, match="does not answer") as refused:
        choose_executor("slurm", SHAPE, environ={**tools, **inside})
    assert "Unable to contact" in str(refused.value.why)


def test_salloc_s_own_shell_is_no_step(tools: dict[str, str]) -> None:
    shell = {**tools, "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "4294967290"}
    assert choose_executor(None, SHAPE, environ=shell).name == "slurm"


def test_the_job_around_us_has_so_many_nodes() -> None:
    inside = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "4"}
    assert executor_kind(None, environ=inside).nodes_around(inside) == 4
    assert [kind.nodes_around({}) for kind in EXECUTORS] == [None] * len(EXECUTORS)


def test_a_grant_is_what_the_poorest_node_has() -> None:
    text = (
        "NumNodes=3  JOB_GRES=gpu:h100:20 Nodes=n[0-1] CPU_IDs=0-63,128-191 Mem=0"
        " GRES=gpu:h100:8(IDX:0-7) Nodes=n2 CPU_IDs=0-31 Mem=0 GRES=gpu:h100:4(IDX:0-3)"
    )
    grant = grant_of("7", {"": text}, ("n0", "n1", "n2"))
    assert (grant.cpus, grant.gpus) == (32, 4)
    assert grant.ranks_per_node(ProcessShape(per="gpu")) == 4


@pytest.mark.parametrize(
    ("fields", "said", "ran", "kind"),
    [
        ({"JobState": "NODE_FAIL", "Reason": "NodeDown"}, "", True, "node fault"),
        ({"JobState": "PREEMPTED"}, "", True, "preempted"),
        ({"JobState": "TIMEOUT"}, "", True, "preempted"),
        ({"JobState": "RUNNING", "PreemptTime": "2026-01-01T00:00:00"}, "", True, "preempted"),
        ({"JobState": "RUNNING"}, "srun: error: Node failure on n3", True, "node fault"),
        (
            {"JobState": "RUNNING"},
            "slurmstepd-n1: error: *** STEP 7.1 ON n1 CANCELLED AT x DUE TO PREEMPTION ***",
            True,
            "preempted",
        ),
        (
            {"JobState": "RUNNING"},
            "srun: error: Task launch for StepId=7.1 failed on node n1: connection failure",
            False,
            "node fault",
        ),
        ({}, "", True, "lost"),
        ({"JobState": "RUNNING"}, "srun: error: n1: task 0: Exited with exit code 7", True, None),
        ({"JobState": "RUNNING"}, "rank 0: connection refused", False, None),
        ({"JobState": "FAILED", "Reason": "NonZeroExitCode"}, "", True, None),
    ],
)
def test_whose_fault_it_was(
    tmp_path: Path, fields: dict[str, str], said: str, ran: bool, kind: str | None
) -> None:
    (tmp_path / "log").write_text(f"before\n{said}\nafter\n")
    told = fault(fields, tmp_path / "log", ran=ran)
    assert (told and told.kind) == kind


def test_every_executor_has_a_name_of_its_own_and_options_on_the_command_line() -> None:
    assert len({kind.name for kind in EXECUTORS}) == len(EXECUTORS)
    assert {kind.options for kind in EXECUTORS} == {type(group) for group in NO_OPTIONS.groups}
    assert [kind.name for kind in EXECUTORS if kind.is_here] == ["local"]
