"""Several ranks: which are ours to start, how they find each other, and that they end together."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.capture.launch import launch
from counterpoint.capture.ranks import LOCAL, count_gpus, find_world, local_world
from counterpoint.capture.request import ProfileSchedule, RunRequest
from counterpoint.core.errors import UsageError
from counterpoint.runs.outcomes import OutcomeKind
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import Run

PLAIN = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
SLURM_STEP = {
    "SLURM_JOB_ID": "42",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "4",
}
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_MCA_ess_base_jobid": "1531576320",
}
PYXIS = {**SLURM_STEP, "PMIX_RANK": "3", "PMIX_NAMESPACE": "slurm.pmix.42.0", "RANK": "3"}
"""What enroot's hooks hand into a container of `srun --mpi=pmix`."""
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "3", "HOSTNAME": "j-w-0-3"}
TRAINER = {
    **POD,
    "JAX_PROCESS_ID": "3",
    "JAX_NUM_PROCESSES": "4",
    "JAX_COORDINATOR_ADDRESS": "llama-node-0-0.llama:29400",
}
XPK_GPU = {**POD, "JOBSET_NAME": "xj", "NODE_RANK": "3", "NNODES": "4", "GPUS_PER_NODE": "8"}
XPK_CPU = {
    **POD,
    "JOB_INDEX": "1",
    "PROCESSES_IN_JOB": "4",
    "JAX_PROCESS_COUNT": "8",
    "JAX_COORDINATOR_ADDRESS": "xj-slice-job-0-0.xj",
}
GKE_TPU = {
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    "MEGASCALE_NUM_SLICES": "2",
    "MEGASCALE_SLICE_ID": "1",
    "TPU_WORKER_ID": "1",
    "JOB_COMPLETION_INDEX": "1",
    "TPU_WORKER_HOSTNAMES": "t-slice-1-0.t,t-slice-1-1.t",
}
TWO_STEPS = """
import os, time, jax, jax.numpy as jnp
step = jax.jit(lambda x: x @ x)
for i in range(8):
    with jax.profiler.StepTraceAnnotation("train", step_num=i):
        step(jnp.ones((64, 64))).block_until_ready()
print("pod", os.environ["JAX_PROCESS_ID"])
"""
WITHOUT_JAX = 'import os; print("pod", os.environ["JAX_PROCESS_ID"])'
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "3", "MPI_LOCALRANKID": "0", "PMI_JOBID": "7"}


def run(path: Path, program: str, **options: object) -> Run:
    command = (sys.executable, "-c", program)
    asked = RunRequest(command, path / "run", echo=False, environment=PLAIN, window=None, ranks=2)
    return launch(replace(asked, **options))  # pyright: ignore[reportArgumentType]


class TestWorld:
    @pytest.mark.parametrize(
        ("environ", "launcher", "rank", "local", "size", "job"),
        [
            (SLURM_STEP, "slurm", 3, 1, 4, "42.0"),
            ({**SLURM_STEP, "SLURM_RESTART_COUNT": "2"}, "slurm", 3, 1, 4, "42.0-restart2"),
            (OPENMPI, "openmpi", 1, 1, 2, "1531576320"),
            ({**OPENMPI, "PMIX_NAMESPACE": "prterun-n0-7@1"}, "openmpi", 1, 1, 2, "prterun-n0-7@1"),
            (HYDRA, "pmi", 1, 0, 3, "7"),
            (PYXIS, "slurm", 3, 1, 4, "42.0"),
            ({**PYXIS, "PMI_RANK": "3", "PMI_SIZE": "4"}, "slurm", 3, 1, 4, "42.0"),
            (TRAINER, "kubernetes", 3, 0, 4, "llama"),
            (XPK_GPU, "kubernetes", 3, 0, 4, "xj"),
            (XPK_CPU, "kubernetes", 7, 0, 8, "xj"),
            (GKE_TPU, "kubernetes", 3, 0, 4, "t"),
            ({**POD, "NNODES": "4"}, "kubernetes", 3, 0, 4, "j-w-0"),
            ({**POD, "NUM_PROCESSES": "4", "PROCESS_ID": "2"}, "kubernetes", 2, 0, 4, "j-w-0"),
            ({**POD, "NNODES": "4", "MASTER_ADDR": "10.1.2.3"}, "kubernetes", 3, 0, 4, "j-w-0"),
            ({**SLURM_STEP, **TRAINER}, "slurm", 3, 1, 4, "42.0"),
            # Launchers start each other's helpers; the inner one's ranks are the program's.
            ({**SLURM_STEP, **OPENMPI}, "openmpi", 1, 1, 2, "1531576320"),
            ({**SLURM_STEP, **HYDRA}, "pmi", 1, 0, 3, "7"),
            ({**SLURM_STEP, "PMI_RANK": "3", "PMI_SIZE": "4"}, "slurm", 3, 1, 4, "42.0"),
        ],
    )
    def test_a_launcher_is_known(
        self, environ: dict[str, str], launcher: str, rank: int, local: int, size: int, job: str
    ) -> None:
        world = find_world(environ)
        assert world is not None
        assert (world.launcher, world.size, world.job) == (launcher, size, job)
        assert [(seat.rank, seat.local_rank) for seat in world.seats] == [(rank, local)]
        assert world.launched
        assert not world.seats[0].variables  # JAX finds its peers without us

    @pytest.mark.parametrize(
        "environ",
        [
            {},
            {"SLURM_JOB_ID": "42", "SLURM_NTASKS": "4"},  # salloc
            {"SLURM_JOB_ID": "42", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"},  # a batch script
            POD,  # pods of an indexed Job may be many jobs
            {**POD, "NNODES": "1", "JOB_COMPLETION_INDEX": "0"},
            {"NODE_RANK": "1", "NNODES": "2"},  # of a launcher's script, outside of Kubernetes
            {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"},
        ],
    )
    def test_an_allocation_is_no_launcher(self, environ: dict[str, str]) -> None:
        assert find_world(environ) is None

    def test_a_damaged_variable_is_named(self) -> None:
        with pytest.raises(UsageError, match="SLURM_PROCID='x'"):
            find_world({**SLURM_STEP, "SLURM_PROCID": "x"})

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            ({"NNODES": "many"}, "NNODES='many' is not a number"),
            ({"NNODES": ""}, "NNODES='' is not a number"),
            ({"NNODES": "2"}, "rank 3 of 2: ranks are 0 to 1"),
            ({"NNODES": "2", "JOB_COMPLETION_INDEX": "-1"}, "JOB_COMPLETION_INDEX='-1'"),
        ],
    )
    def test_a_template_that_contradicts_itself_is_refused(
        self, more: dict[str, str], said: str
    ) -> None:
        with pytest.raises(UsageError, match=said):
            find_world({**POD, **more})

    def test_one_rank_of_ours_needs_no_peers(self) -> None:
        world = local_world(1)
        assert (world.launcher, world.launched, world.seats[0].variables) == (LOCAL, False, {})

    @pytest.mark.parametrize(
        ("ranks", "devices", "shares"),
        [
            (2, 8, ["0,1,2,3", "4,5,6,7"]),
            (4, 4, [None] * 4),
            (3, 8, [None] * 3),
            (2, 0, [None] * 2),
        ],
    )
    def test_devices_are_dealt_out_where_they_can_be(
        self, ranks: int, devices: int, shares: list[str | None]
    ) -> None:
        seats = local_world(ranks, devices).seats
        assert [seat.variables.get("JAX_LOCAL_DEVICE_IDS") for seat in seats] == shares

    def test_gpus_are_counted_as_nvidia_lists_them(self, tmp_path: Path) -> None:
        tool = tmp_path / "nvidia-smi"
        tool.write_text(
            '#!/bin/sh\nfor i in 0 1 2; do echo "GPU $i: NVIDIA H100 (UUID: x)"; done\n'
        )
        tool.chmod(0o755)
        search = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        assert count_gpus(search) == 3
        assert count_gpus({**search, "CUDA_VISIBLE_DEVICES": "0,2"}) == 2
        assert count_gpus({**search, "CUDA_VISIBLE_DEVICES": ""}) == 0
        assert count_gpus({"PATH": "/nowhere"}) == 0


class TestGang:
    def test_each_rank_keeps_its_own(self, tmp_path: Path) -> None:
        program = "import os; print('rank', os.environ['OMPI_COMM_WORLD_RANK'])"
        made = run(tmp_path, program, ranks=3)
        assert made.outcome.ok
        assert made.world_size == 3
        assert [rank.stdout.read_text() for rank in made.ranks] == [
            "rank 0\n",
            "rank 1\n",
            "rank 2\n",
        ]

    def test_on_the_terminal_lines_tell_their_rank(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        program = "import os; os.write(1, b'a\\nb\\rhalf')"
        made = run(tmp_path, program, echo=True)
        lines = capfd.readouterr().out.splitlines()
        assert sorted(lines) == [
            f"[{rank}] {text}" for rank in (0, 1) for text in ("a", "b", "half")
        ]
        assert made.ranks[1].stdout.read_bytes() == b"a\nb\rhalf"

    def test_one_rank_s_death_ends_the_others(self, tmp_path: Path) -> None:
        program = (
            "import os, time\n"
            "if os.environ['OMPI_COMM_WORLD_RANK'] == '1': raise ValueError('no data')\n"
            "time.sleep(60)\n"
            "print('slept')"
        )
        made = run(tmp_path, program)
        assert made.rank(0).stdout.read_text() == ""
        assert (made.outcome.kind, made.outcome.status) == (OutcomeKind.ERROR, 1)
        assert made.outcome.detail == "rank 1: ValueError: no data"
        assert made.rank(0).outcome.kind is OutcomeKind.INTERRUPTED
        assert made.rank(0).outcome.detail == "ended because rank 1 failed"

    def test_a_rank_that_ends_well_leaves_the_others_running(self, tmp_path: Path) -> None:
        program = "import os, time; time.sleep(int(os.environ['OMPI_COMM_WORLD_RANK']) * 0.5)"
        assert run(tmp_path, program).outcome.ok

    def test_only_the_ranks_asked_for_profile(self, tmp_path: Path) -> None:
        program = "import os; print(os.environ['COUNTERPOINT_AGENT_WINDOW'])"
        made = run(tmp_path, program, window=ProfileSchedule(processes=(1,)))
        told = [rank.stdout.read_text() for rank in made.ranks]
        assert ['"profile": true' in text for text in told] == [False, True]

    def test_a_command_that_can_t_start_leaves_nothing(self, tmp_path: Path) -> None:
        script = tmp_path / "train"
        script.write_bytes(b"\x7fELF broken")
        script.chmod(0o755)
        with pytest.raises(UsageError, match="can't be started"):
            run(tmp_path, "", command=(str(script),))
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize("ranks", [0, -1])
    def test_no_rank_is_no_run(self, tmp_path: Path, ranks: int) -> None:
        with pytest.raises(UsageError, match=f"--ranks {ranks}"):
            run(tmp_path, "pass", ranks=ranks)

    def test_per_gpu_without_a_gpu(self, tmp_path: Path) -> None:
        nowhere = {"PATH": str(Path(sys.executable).parent)}
        with pytest.raises(UsageError, match="no GPU was"):
            run(tmp_path, "pass", ranks=None, per="gpu", environment=nowhere)


class TestLaunched:
    """As under a launcher: each rank is a launch of its own, told apart by the environment."""

    def rank(self, path: Path, rank: int, **options: object) -> Run:
        environment = {**PLAIN, **SLURM_STEP, "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2"}
        return run(path, "print('hi')", ranks=None, environment=environment, **options)

    def test_ranks_meet_in_one_directory(self, tmp_path: Path) -> None:
        first = self.rank(tmp_path, 1)
        assert first.outcome.kind is OutcomeKind.RUNNING  # rank 0 has not come yet
        made = self.rank(tmp_path, 0)
        assert (made.outcome.kind, made.launcher, made.world_size) == (OutcomeKind.OK, "slurm", 2)
        assert [rank.number for rank in read_run(tmp_path / "run").ranks] == [0, 1]

    def test_without_o_they_meet_under_the_name_of_the_job(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        paths = {self.rank(tmp_path, rank, directory=None).path for rank in (1, 0)}
        assert paths == {tmp_path / "counterpoint-runs" / "slurm-42.0"}

    def test_a_rank_that_was_there_is_refused(self, tmp_path: Path) -> None:
        self.rank(tmp_path, 1)  # rank 0 would wait for the others
        with pytest.raises(UsageError, match="has a rank 1"):
            self.rank(tmp_path, 1)

    def test_ranks_of_our_own_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="slurm already starts"):
            run(tmp_path, "pass", ranks=2, environment={**PLAIN, **SLURM_STEP})


class TestPods:
    """Pods of one JobSet, on a volume that all of them mount: each is a command of its own."""

    def start(self, cwd: Path, rank: int, program: str, *words: str) -> subprocess.Popen[str]:
        pod = {**TRAINER, "JOB_COMPLETION_INDEX": str(rank), "JAX_PROCESS_ID": str(rank)}
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "counterpoint",
                "run",
                *words,
                "--",
                sys.executable,
                "-c",
                program,
            ],
            cwd=cwd,
            env={**os.environ, **pod, "JAX_NUM_PROCESSES": "2", "JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @pytest.mark.system
    def test_profiles_of_all_pods_are_one_run_and_a_restart_is_another(
        self, tmp_path: Path
    ) -> None:
        pytest.importorskip("jax")
        for name, program, *words in (
            ("kubernetes-llama", TWO_STEPS),
            ("kubernetes-llama-2", WITHOUT_JAX, "--no-profile"),
        ):
            pods = [self.start(tmp_path, rank, program, *words) for rank in range(2)]
            told = [pod.communicate(timeout=240)[0] for pod in pods]
            assert [pod.returncode for pod in pods] == [0, 0], told
            made = read_run(tmp_path / "counterpoint-runs" / name)
            assert (made.launcher, made.job, made.world_size) == ("kubernetes", "llama", 2)
            assert made.outcome.ok
            assert [rank.stdout.read_text() for rank in made.ranks] == ["pod 0\n", "pod 1\n"]
            assert len(made.profiles) == (0 if words else 2)
        assert len(list((tmp_path / "counterpoint-runs").iterdir())) == 2

    def test_a_job_of_another_size_is_not_joined(self, tmp_path: Path) -> None:
        for size in (2, 3):
            environment = {**PLAIN, **XPK_GPU, "NODE_RANK": "1", "NNODES": str(size)}
            run(tmp_path, "pass", ranks=None, environment=environment)
        assert [read_run(tmp_path / name).world_size for name in ("run", "run-2")] == [2, 3]
