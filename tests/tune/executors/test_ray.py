"""Trials on a real cluster of Ray: a head without CPUs, and four nodes with two each."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import counterpoint
from counterpoint.core.errors import UsageError
from counterpoint.runs.reader import read_run
from counterpoint.tune.executors.executor import (
    Allocation,
    Executor,
    GangEnd,
    GangEndKind,
    ProcessShape,
    StoppedWaiting,
    TrialJob,
    settings_of,
)
from ray_cluster import NODE, Cluster, cluster, joined
from tune.executors.contract import (
    MARK,
    SOON,
    Contract,
    FreshContract,
    alive,
    ended,
    printed,
    stubborn,
    wait_until,
)

CONSTRUCT = (
    "from counterpoint.tune.executors.choose import choose_executor\n"
    "from counterpoint.tune.executors.executor import ProcessShape\n"
    "from counterpoint.tune.executors.process_supervisor import EndingTimes\n"
    f"executor = choose_executor('ray', ProcessShape(nodes=2), ending={SOON})\n"
)
TWO = ProcessShape(nodes=2)
PACKAGE = str(Path(counterpoint.__file__).parent)


def on_ray(**fields: object) -> Executor:
    """Ray is imported where a test runs: every collection would wait half a second for it."""
    from counterpoint.tune.executors.ray_gang import Ray

    return Ray(**fields)  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="module")
def ray() -> Iterator[Cluster]:
    with cluster() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", made.address)
        yield made


@pytest.mark.system
@pytest.mark.usefixtures("ray")
class TestRay(Contract):
    construct = CONSTRUCT
    two = TWO
    other = (ProcessShape(nodes=2, ranks_per_node=2), 4)
    node = f"os.environ['{NODE}']"
    inherits = False  # the nodes have their own

    def test_a_tuner_that_is_killed_leaves_nothing(self, tmp_path: Path) -> None:
        mark = uuid.uuid4().hex
        (tmp_path / "tuner.py").write_text(self._tuner(tmp_path, mark))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, tmp_path / "tuner.py"]
        with subprocess.Popen(command, cwd=tmp_path, env=environment) as tuner:
            wait_until(lambda: len(list(tmp_path.glob("up-*"))) == 4, "the gang never came up")
            tuner.kill()
        wait_until(lambda: not alive(mark), "its ranks live on")


@pytest.mark.system
@pytest.mark.usefixtures("ray")
class TestFresh(FreshContract):
    construct = CONSTRUCT
    two = TWO


def job(directory: Path, program: str, **environment: str) -> TrialJob:
    name = f"trial-{uuid.uuid4().hex[:8]}"
    command = (sys.executable, "-c", program)
    return TrialJob(
        name=name, command=command, directory=directory / name, shape=TWO, environment=environment
    )


def stubborn_job(directory: Path, mark: str) -> TrialJob:
    return replace(job(directory, "", **{MARK: mark}), command=stubborn(directory))


@pytest.mark.system
def test_a_tuner_outside_of_the_cluster_joins_it_as_a_client(ray: Cluster, tmp_path: Path) -> None:
    allocation = open_patiently(on_ray(shape=TWO, address=ray.client, ending=SOON))
    mark = uuid.uuid4().hex
    try:
        first = job(tmp_path, f"import os; print(os.environ['{NODE}'])")
        assert ended(allocation.start(first)) == GangEnd(kind=GangEndKind.EXITED, exit_code=0)
        assert len(set(printed(read_run(first.directory)))) == 2
        gang = allocation.start(stubborn_job(tmp_path, mark))
        wait_until(lambda: len(list(tmp_path.glob("up-*"))) == 4, "it never came up")
        gang.kill()
        assert not alive(mark)
    finally:
        allocation.close()


def open_patiently(executor: Executor) -> Allocation:
    """Ray gives the process that serves a client 30 s to come up, whatever else runs."""
    for _ in range(4):
        with contextlib.suppress(UsageError):
            return executor.open()
    return executor.open()


@pytest.mark.system
@pytest.mark.parametrize(
    ("module", "what", "why"),
    [
        (f"__version__ = '0.0.1'; __path__ = [{PACKAGE!r}]", "has Counterpoint 0.0.1", ""),
        ("raise ImportError('it is not there')", "can't run Counterpoint", "it is not there"),
    ],
)
def test_nodes_with_another_counterpoint_or_none_are_refused(
    ray: Cluster, tmp_path: Path, module: str, what: str, why: str
) -> None:
    (tmp_path / "counterpoint").mkdir()
    (tmp_path / "counterpoint" / "__init__.py").write_text(module + "\n")
    environment = {"env_vars": {"PYTHONPATH": str(tmp_path)}}
    with joined(ray, environment), pytest.raises(UsageError) as caught:
        on_ray(shape=TWO).open()
    version, told = counterpoint.__version__, str(caught.value.why)
    assert f"{what}, but trials need {version} on every node" in caught.value.what
    assert why in told
    assert f"""--runtime-env-json '{{"pip": ["counterpoint=={version}"]}}'""" in told
    assert caught.value.next == f"pip install 'counterpoint=={version}'"


@pytest.mark.system
def test_a_runtime_environment_may_bring_counterpoint(ray: Cluster, tmp_path: Path) -> None:
    package = Path(counterpoint.__file__).parent
    with joined(ray, {"py_modules": [str(package)]}):
        allocation = on_ray(shape=TWO).open()
        try:
            first = job(tmp_path, "import counterpoint; print(counterpoint.__file__)")
            assert ended(allocation.start(first)) == GangEnd(kind=GangEndKind.EXITED, exit_code=0)
        finally:
            allocation.close()
    for text in printed(read_run(first.directory)):
        assert "/runtime_resources/" in text
        assert not Path(text).is_relative_to(package)


@pytest.mark.system
@pytest.mark.usefixtures("ray")
def test_nodes_that_do_not_see_the_study_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    allocation = on_ray(shape=TWO).open()
    try:
        elsewhere = Path("/proc/self/cwd/study")  # another directory in each process
        with pytest.raises(UsageError) as caught:
            allocation.start(job(elsewhere, "print(1)"))
        assert caught.value.what.endswith(f"does not see {elsewhere}")
        assert "-o /shared/DIRECTORY" in str(caught.value.next)
        assert not list((tmp_path / "study").iterdir())
        again = allocation.start(job(tmp_path / "study", "print(1)"))
        assert ended(again) == GangEnd(kind=GangEndKind.EXITED, exit_code=0)
    finally:
        allocation.close()


@pytest.mark.system
def test_a_node_that_dies_is_blamed_and_not_the_arm(ray: Cluster, tmp_path: Path) -> None:
    executor = on_ray(shape=TWO)
    allocation = executor.open()
    mark = uuid.uuid4().hex
    program = (
        f"import os, pathlib, time; pathlib.Path({str(tmp_path)!r}, 'on-' + os.environ['{NODE}'])"
        ".touch(); time.sleep(3600)"
    )
    try:
        gang = allocation.start(job(tmp_path, program, **{MARK: mark}))
        wait_until(lambda: len(list(tmp_path.glob("on-*"))) == 2, "it never came up")
        victim = next(iter(tmp_path.glob("on-*"))).name.removeprefix("on-")
        ray.kill_node(victim)
        end = ended(gang)
        assert end.kind is GangEndKind.NODE_FAULT, end
        wait_until(lambda: not alive(mark), "the dead node's ranks live on")
        ray.add_node()
        again = ended(allocation.start(job(tmp_path, "print(1)")))
        assert again.kind is GangEndKind.NODE_FAULT, again
    finally:
        allocation.close()


@pytest.mark.system
@pytest.mark.usefixtures("ray")
def test_actors_that_are_killed_leave_nothing(tmp_path: Path) -> None:
    allocation = on_ray(shape=TWO, node_death_s=2).open()
    mark = uuid.uuid4().hex
    try:
        gang = allocation.start(stubborn_job(tmp_path, mark))
        wait_until(lambda: len(list(tmp_path.glob("up-*"))) == 4, "it never came up")
        actors = [process for process in Path("/proc").glob("[0-9]*") if is_actor(process)]
        assert actors
        for actor in actors:
            os.kill(int(actor.name), signal.SIGKILL)
        assert ended(gang).kind is GangEndKind.LOST
        assert not alive(mark)
    finally:
        allocation.close()


def is_actor(process: Path) -> bool:
    try:
        return (process / "cmdline").read_bytes().startswith(b"ray::Node")
    except OSError:
        return False


@pytest.mark.system
@pytest.mark.usefixtures("ray")
def test_nodes_that_the_cluster_can_not_give_are_not_waited_for_endlessly() -> None:
    heard: list[str] = []
    with pytest.raises(UsageError) as caught:
        on_ray(shape=TWO, bundle={"GPU": 8}, wait_s=1, say=heard.append).open()
    assert "2 x {'GPU': 8} within 1 s" in caught.value.what
    expected = "the cluster has 5 nodes, and free are 0 of 0 GPUs, 8 of 8 CPUs"
    assert caught.value.why == expected


@pytest.mark.system
@pytest.mark.usefixtures("ray")
def test_who_is_asked_to_stop_while_nodes_are_waited_for_leaves_nothing() -> None:
    import ray

    heard: list[str] = []
    handler = signal.getsignal(signal.SIGTERM)
    executor = on_ray(shape=TWO, bundle={"GPU": 8}, say=heard.append, stopped=lambda: bool(heard))
    with pytest.raises(StoppedWaiting):
        executor.open()
    assert "waiting for 2 x {'GPU': 8}: the cluster has 5 nodes" in heard[0]
    assert not ray.is_initialized()
    assert signal.getsignal(signal.SIGTERM) == handler


@pytest.mark.system
@pytest.mark.usefixtures("ray")
def test_what_an_allocation_has_not_is_refused_at_once(tmp_path: Path) -> None:
    allocation = on_ray(shape=ProcessShape()).open()
    try:
        for shape, what in ((TWO, "2 nodes"), (ProcessShape(per="gpu"), "one process per GPU")):
            refused = TrialJob(name="no", command=("true",), directory=tmp_path / "no", shape=shape)
            with pytest.raises(UsageError) as caught:
                allocation.start(refused)
            assert caught.value.what.startswith(what)
    finally:
        allocation.close()


def test_a_cluster_that_is_not_there_is_an_error() -> None:
    pytest.importorskip("ray")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        for scheme in ("", "ray://"):
            address = f"{scheme}127.0.0.1:{closed.getsockname()[1]}"
            with pytest.raises(UsageError, match="no Ray cluster") as caught:
                on_ray(address=address).open()
            assert address in caught.value.what


def test_the_address_of_the_dashboard_is_refused() -> None:
    pytest.importorskip("ray")
    with pytest.raises(UsageError, match="Ray's dashboard") as caught:
        on_ray(address="http://head:8265").open()
    assert caught.value.next == "use --ray-address ray://head:10001"


def test_settings_travel_and_the_tuner_s_own_place_does_not() -> None:
    settings = {"XLA_FLAGS": "--x", "NCCL_DEBUG": "INFO", "JAX_PLATFORMS": "cpu"}
    place = {"JAX_COORDINATOR_ADDRESS": "h:1", "JAX_PROCESS_ID": "3", "HOME": "/h", "TOKEN": "s"}
    assert settings_of({**settings, **place}) == settings


def test_as_much_is_asked_for_as_enough_nodes_have() -> None:
    pytest.importorskip("ray")
    from counterpoint.tune.executors.ray_gang import usual_bundle

    nodes = [{"GPU": 8.0, "CPU": 96.0}, {"GPU": 4.0, "CPU": 96.0}, {"CPU": 128.0}, {}]
    assert usual_bundle(nodes, 1) == {"GPU": 8, "CPU": 1.0}
    assert usual_bundle(nodes, 2) == {"GPU": 4, "CPU": 1.0}
    assert usual_bundle(nodes, 3) == {"CPU": 96}
    assert usual_bundle(nodes, 4) is None
