"""For every test: how hypothesis searches, where real profiles are, and what a run makes once."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from counterpoint.compile.pool import Pool
from counterpoint.pgle.compiler_log import VERBOSE_LOG
from golden_files import Golden
from json_schemas_checked import checked
from lowered import Lowered, lower_step
from run_directory import RunDirectory, run_directory_of
from slurm_cluster import SlurmCluster, slurm_cluster, why_no_slurm
from started_programs import StartedPrograms
from xla_compiler import Compiler, why_none

# CI tries the same inputs each time, others new ones. A busy machine is no failure.
for name, examples in (("counterpoint", 25), ("deep", 500)):
    settings.register_profile(
        name,
        max_examples=examples,
        derandomize="CI" in os.environ,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "counterpoint"))

SYSTEM_FIXTURES = frozenset({"lowered", "compiled_anew", "compiler", "running_slurm", "windows"})
"""Fixtures that start XLA's compiler for GPUs, a cluster or a browser."""
CHECKOUT = Path(__file__).parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew-golden",
        action="store_true",
        help="write the golden files anew, and run only the tests that compare with one",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(StartedPrograms())
    # Thousands of tests and all modules live to the end: to look for garbage among them as often
    # as Python does by default took a fifth of the time.
    gc.set_threshold(50_000, 20, 20)
    # `make test &` ignores these in all that it starts; tests send them to programs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that start a system, before `-m` chooses among them."""
    for item in items:
        if not SYSTEM_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.system)
    if config.getoption("renew_golden"):
        items[:] = [it for it in items if "golden" in getattr(it, "fixturenames", ())]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a whole text with a file beside the test: `golden("tune_found.txt", text)`."""
    renew = bool(request.config.getoption("renew_golden"))
    return Golden(request.path.parent / "golden", renew=renew)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The directory of real profiles that are not part of the project."""
    directory = Path(os.environ.get("COUNTERPOINT_SHARED", CHECKOUT.parent / "shared"))
    if not (directory / "data").is_dir():
        pytest.skip(f"real profiles are not here ({directory}/data); set COUNTERPOINT_SHARED")
    return directory


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """What all workers of this run share: `run_directory.once(name, make)`."""
    return run_directory_of(tmp_path_factory)


@pytest.fixture(scope="session", autouse=True)
def shared_cache(run_directory: RunDirectory) -> Path:
    """What one test compiles no other compiles again; nothing outlives this run."""
    cache = run_directory.path / "cache"
    os.environ["COUNTERPOINT_CACHE"] = str(cache)
    return cache


@pytest.fixture(scope="session", autouse=True)
def json_is_checked() -> Iterator[None]:
    """Hold every JSON that a test prints to its committed schema."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("counterpoint.report.json.plain", checked)
        yield


@pytest.fixture
def compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cache: for a test of what happens while something is compiled."""
    monkeypatch.setenv("COUNTERPOINT_CACHE", "off")


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    """XLA's compiler for GPUs in a process that serves many compiles, as loud as a proof needs."""
    reason = why_none()
    if reason:
        pytest.skip(reason)
    # Set here, too: a test that imports JAX has silenced the environment.
    compiler = Compiler(tmp_path_factory.mktemp("compiler"), VERBOSE_LOG)
    yield compiler
    compiler.close()


@pytest.fixture(scope="session")
def lowered(run_directory: RunDirectory) -> Iterator[Lowered]:
    """A sharded step that ran on eight virtual CPU devices, to be compiled for GPUs."""
    reason = why_none()
    if reason:
        pytest.skip(reason)
    directory = run_directory.once("lowered", lower_step)
    with Pool(jobs=1) as pool:
        yield Lowered(directory, pool)


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
