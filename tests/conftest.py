"""For every test: how hypothesis searches, and where the shared real profiles are, if here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from lowered import Lowered, lower_step
from slurm_cluster import SlurmCluster, slurm_cluster, why_no_slurm
from xla_compiler import why_none

# CI tries the same inputs each time, others new ones. A busy machine is no failure.
settings.register_profile(
    "counterpoint",
    derandomize="CI" in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("counterpoint")

# What a test compiles it compiles; a test of the cache names a directory of its own.
os.environ["COUNTERPOINT_CACHE"] = "off"

CHECKOUT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The directory of real profiles that are not part of the project."""
    directory = Path(os.environ.get("COUNTERPOINT_SHARED", CHECKOUT.parent / "shared"))
    if not (directory / "data").is_dir():
        pytest.skip(f"real profiles are not here ({directory}/data); set COUNTERPOINT_SHARED")
    return directory


@pytest.fixture(scope="session")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> Lowered:
    """A sharded step that ran on eight virtual CPU devices, to be compiled for GPUs."""
    reason = why_none()
    if reason:
        pytest.skip(reason)
    return Lowered(lower_step(tmp_path_factory.mktemp("lowered")))


@pytest.fixture(scope="session")
def running_slurm() -> Iterator[SlurmCluster]:
    """A real Slurm of four nodes on this machine."""
    reason = why_no_slurm()
    if reason:
        pytest.skip(reason)
    with slurm_cluster() as cluster:
        yield cluster


@pytest.fixture
def slurm(running_slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """The same with all nodes idle; commands of Slurm's find it."""
    for name in [it for it in os.environ if it.startswith(("SLURM_", "SBATCH_", "SALLOC_"))]:
        monkeypatch.delenv(name)
    for name, text in running_slurm.variables.items():
        monkeypatch.setenv(name, text)
    running_slurm.make_idle()
    return running_slurm
