"""Real launchers, where they are: mpirun, mpiexec, and srun with a Slurm of our own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import counterpoint
from counterpoint.runs.outcomes import OutcomeKind
from counterpoint.runs.reader import read_run

pytestmark = pytest.mark.system

COUNTERPOINT = (sys.executable, "-m", "counterpoint", "run")
DISTRIBUTED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
jax.distributed.initialize()
count = jax.device_count()
over = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), PartitionSpec("d"))
x = jax.make_array_from_callback(
    (count,), over, lambda at: np.full((1,), at[0].start + 1, np.float32))
total = jax.jit(lambda x: jnp.sum(x))
for i in range(6):
    with jax.profiler.StepTraceAnnotation("train", step_num=i):
        told = total(x).block_until_ready()
print(jax.process_index(), jax.process_count(), float(told))
"""


SRUN = ("srun", "-N2", "--ntasks-per-node=1", "--kill-on-bad-exit=1")


def mpirun() -> tuple[str, ...]:
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun (Debian: apt-get install openmpi-bin)")
    return ("mpirun", "--oversubscribe", "-n", "2")


def test_mpiexec_of_mpich_gives_the_job_no_name(tmp_path: Path) -> None:
    if shutil.which("mpiexec.hydra") is None:
        pytest.skip("there is no mpiexec.hydra (Debian: apt-get install mpich)")
    hydra = ("mpiexec.hydra", "-n", "2")
    refused = launched(hydra, tmp_path, "print('hi')", "--no-profile")
    assert "pmi gives the" in refused.stderr
    done = launched(hydra, tmp_path, "print('hi')", "--no-profile", "-o", "run")
    assert done.returncode == 0, done.stderr
    run = read_run(tmp_path / "run")
    assert (run.launcher, run.world_size, run.outcome.ok) == ("pmi", 2, True)
    assert [rank.stdout.read_text() for rank in run.ranks] == ["hi\n"] * 2


@pytest.fixture(params=["mpirun", "srun"])
def launcher(request: pytest.FixtureRequest) -> tuple[str, ...]:
    if request.param == "mpirun":
        return mpirun()
    request.getfixturevalue("slurm")
    return SRUN


def launched(
    launcher: tuple[str, ...], cwd: Path, program: str, *options: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    return subprocess.run(
        [*launcher, *COUNTERPOINT, *options, "--", sys.executable, "-c", program],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_ranks_find_each_other_and_one_directory(launcher: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("jax")
    done = launched(launcher, tmp_path, DISTRIBUTED, "--profile-start-step", "2")
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "counterpoint-runs").iterdir()
    run = read_run(path)
    assert (run.outcome.kind, run.world_size) == (OutcomeKind.OK, 2)
    last = [rank.stdout.read_text().splitlines()[-1] for rank in run.ranks]
    assert last == ["0 2 10.0", "1 2 10.0"]
    assert "outcome  ok" in done.stderr
    timeline = counterpoint.read(path)
    assert (len(timeline.hosts), len(timeline.devices)) == (2, 4)


def test_one_rank_s_death_is_the_run_s(launcher: tuple[str, ...], tmp_path: Path) -> None:
    program = (
        "import os, time\n"
        "rank = os.environ.get('OMPI_COMM_WORLD_RANK') or os.environ['SLURM_PROCID']\n"
        "time.sleep(1 if rank == '1' else 60)\n"
        "raise SystemExit(5)"
    )
    done = launched(launcher, tmp_path, program, "-o", "run", "--no-profile")
    assert done.returncode != 0
    run = read_run(tmp_path / "run")
    assert (run.outcome.kind, run.outcome.exit_code) == (OutcomeKind.ERROR, 5)
    assert run.rank(0).outcome.kind is OutcomeKind.INTERRUPTED
