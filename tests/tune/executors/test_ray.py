"""Trials on a real cluster of Ray: a head without CPUs, and four nodes with two each."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import counterpoint
from counterpoint.core.errors import UsageError
from counterpoint.runs import OutcomeKind, read_run
from counterpoint.tune.executors.executor import Ended, EndedKind, Job, Shape, StoppedWaiting
from counterpoint.tune.executors.ray import Ray, RayAllocation
from counterpoint.tune.executors.ray_gang import refused
from counterpoint.tune.executors.ray_hold import bundle_of, cluster_has, to_avoid
from counterpoint.tune.executors.ray_jobs import Jobs
from counterpoint.tune.executors.ray_wire import as_word, last, of_word
from ray_cluster import NODE, Cluster, cluster
from tune.executors.contract import (
    MARK,
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
    "from counterpoint.tune.executors.executor import Shape\n"
    "executor = choose_executor('ray', Shape(nodes=2))\n"
)
TWO = Shape(nodes=2)


@pytest.fixture(scope="module")
def ray() -> Iterator[Cluster]:
    with cluster() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", made.address)
        yield made


@pytest.mark.slow
@pytest.mark.usefixtures("ray")
class TestRay(Contract):
    construct = CONSTRUCT
    two = TWO
    other = (Shape(nodes=2, ranks_per_node=2), 4)
    node = f"os.environ['{NODE}']"
    inherits = False  # the nodes have their own


@pytest.mark.slow
@pytest.mark.usefixtures("ray")
class TestFresh(FreshContract):
    construct = CONSTRUCT
    two = TWO


def job(directory: Path, program: str, **environment: str) -> Job:
    name = f"trial-{uuid.uuid4().hex[:8]}"
    command = (sys.executable, "-c", program)
    return Job(
        name=name, command=command, directory=directory / name, shape=TWO, environment=environment
    )


@pytest.mark.slow
def test_a_run_comes_from_nodes_that_share_no_disk_with_us(
    ray: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "data.txt").write_text("what travels")
    monkeypatch.chdir(here)
    program = (
        "import os, jax; jax.jit(lambda x: x + 1)(1.0)\n"
        f"print(os.environ['{NODE}'], os.environ['TMPDIR'], open('data.txt').read(), os.getcwd())"
    )
    executor = Ray(shape=TWO, shared=False, ship=True)
    allocation = executor.open()
    try:
        asked = job(tmp_path / "study" / "runs", program, JAX_PLATFORMS="cpu")
        assert ended(allocation.start(asked)) == Ended(kind=EndedKind.EXITED, exit_code=0)
        run = read_run(asked.directory)
        assert (run.outcome.kind, run.world_size, run.notes) == (OutcomeKind.OK, 2, ())
        for rank, text in zip(run.ranks, printed(run), strict=True):
            name, place, told = text.split(maxsplit=2)
            assert (place, told.split()[:2]) == (str(ray.places[name]), ["what", "travels"])
            assert str(here) not in told
            assert all(path.is_relative_to(asked.directory) for path in rank.hlo)
            assert rank.hlo
        assert sorted(asked.directory.parent.iterdir()) == [asked.directory]
        left = [path for place in ray.places.values() for path in place.glob("counterpoint-ray-*")]
        assert not left

        failing = job(tmp_path / "study" / "runs", "raise SystemExit(5)")
        assert ended(allocation.start(failing)).exit_code == 5
        assert read_run(failing.directory).outcome.exit_code == 5

        mark = uuid.uuid4().hex
        killed = Job(
            name="killed",
            command=stubborn(tmp_path),
            directory=tmp_path / "study" / "runs" / "killed",
            shape=TWO,
            environment={MARK: mark},
        )
        gang = allocation.start(killed)
        wait_until(lambda: len(list(tmp_path.glob("up-*"))) == 4, "it never came up")
        gang.kill()
        assert not alive(mark)
        assert read_run(killed.directory).outcome.kind is not OutcomeKind.RUNNING
    finally:
        allocation.close()


@pytest.mark.slow
def test_a_node_that_dies_is_blamed_and_not_the_arm(ray: Cluster, tmp_path: Path) -> None:
    executor = Ray(shape=TWO)
    allocation = executor.open()
    assert isinstance(allocation, RayAllocation)
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
        told = ended(gang)
        assert told.kind is EndedKind.NODE_FAULT, told
        wait_until(lambda: not alive(mark), "the dead node's ranks live on")
        ray.add_node()
        again = ended(allocation.start(job(tmp_path, "print(1)")))
        assert again.kind is EndedKind.NODE_FAULT, again
    finally:
        allocation.close()


@pytest.mark.slow
@pytest.mark.usefixtures("ray")
def test_a_driver_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    allocation = Ray(shape=TWO).open()
    mark = uuid.uuid4().hex
    try:
        asked = job(tmp_path, "", **{MARK: mark})
        asked = Job(
            name=asked.name,
            command=stubborn(tmp_path),
            directory=asked.directory,
            shape=TWO,
            environment={MARK: mark},
        )
        gang = allocation.start(asked)
        wait_until(lambda: len(list(tmp_path.glob("up-*"))) == 4, "it never came up")
        drivers = [it for it in Path("/proc").glob("[0-9]*") if is_driver(it, "trial")]
        assert drivers
        for driver in drivers:
            os.kill(int(driver.name), signal.SIGKILL)
        assert ended(gang).kind is EndedKind.LOST
        assert not alive(mark)
    finally:
        allocation.close()


def is_driver(process: Path, does: str) -> bool:
    try:
        words = (process / "cmdline").read_bytes().decode().split("\0")
        return words[1:3] == ["-m", "counterpoint.tune.executors.ray_driver"] and (
            of_word(words[3])["do"] == does
        )
    except (OSError, IndexError, ValueError):
        return False


@pytest.mark.slow
@pytest.mark.usefixtures("ray")
def test_nodes_that_the_cluster_can_not_give_are_not_waited_for_endlessly() -> None:
    heard: list[str] = []
    with pytest.raises(UsageError) as caught:
        Ray(shape=TWO, bundle={"GPU": 8}, wait_s=1, say=heard.append).open()
    assert "gives no such nodes" in caught.value.what
    why = str(caught.value.why)
    assert "2 x {'GPU': 8}" in why
    assert "4 x (0 GPUs, 2 CPUs)" in why


@pytest.mark.slow
@pytest.mark.usefixtures("ray")
def test_who_is_asked_to_stop_while_nodes_are_waited_for_leaves_no_job() -> None:
    heard: list[str] = []
    executor = Ray(shape=TWO, bundle={"GPU": 8}, say=heard.append, stopped=lambda: bool(heard))
    with pytest.raises(StoppedWaiting):
        executor.open()
    assert "waiting for 2 x {'GPU': 8}" in heard[0]
    jobs = Jobs(executor.where)
    assert all(jobs.state(name)[0] for name in jobs.of("tune"))


@pytest.mark.slow
@pytest.mark.usefixtures("ray")
def test_what_an_allocation_has_not_is_refused_at_once(tmp_path: Path) -> None:
    allocation = Ray(shape=Shape()).open()
    try:
        for shape, what in ((TWO, "2 nodes"), (Shape(per="gpu"), "a process per GPU")):
            asked = Job(name="no", command=("true",), directory=tmp_path / "no", shape=shape)
            with pytest.raises(UsageError) as caught:
                allocation.start(asked)
            assert caught.value.what.startswith(what)
    finally:
        allocation.close()


def test_a_cluster_that_is_not_there_is_said() -> None:
    pytest.importorskip("ray")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(UsageError) as caught:
            Ray(address=address).open()
    assert address in caught.value.what


def test_jobs_that_find_another_python_than_ray_s_are_told_so(tmp_path: Path) -> None:
    (tmp_path / "ray").mkdir()  # Ray's own directories, which look like a module
    source = str(Path(counterpoint.__file__).parents[1])
    program = (
        f"import sys; sys.path[:0] = [{source!r}, '']\n"
        "from counterpoint.tune.executors.ray_api import ray_api\n"
        "ray_api()"
    )
    made = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 1
    error = refused("counterpoint-1", "FAILED: exit code 1", made.stderr)
    assert error.what == "the cluster's jobs do not find Ray's Python"
    assert error.why == f"`python` is {sys.executable} on the head node, which has no Ray"
    shell = subprocess.run(
        ["/bin/sh", "-c", "python -m it"],
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    state = f"FAILED: Job entrypoint command failed with exit code {shell.returncode}"
    assert refused("counterpoint-1", state, shell.stderr).why == shell.stderr.strip()


def node(name: str, **resources: float) -> dict[str, object]:
    return {"NodeID": name, "Resources": resources}


def test_as_much_is_asked_for_as_enough_nodes_have() -> None:
    nodes = [node("a", GPU=8, CPU=96), node("b", GPU=4, CPU=96), node("c", CPU=128), node("d")]
    assert bundle_of(nodes, 1, None) == ({"GPU": 8, "CPU": 1.0}, "")
    assert bundle_of(nodes, 2, None) == ({"GPU": 4, "CPU": 1.0}, "")
    assert bundle_of(nodes, 3, None) == ({"CPU": 96}, "")
    assert bundle_of(nodes, 4, None)[0] is None
    assert bundle_of(nodes, 4, {"TPU": 4}) == ({"TPU": 4}, "")
    assert cluster_has(nodes[1:2] * 2) == "2 x (4 GPUs, 96 CPUs)"
    assert cluster_has([]) == "no node"


def test_a_fresh_allocation_goes_where_none_was() -> None:
    nodes = [node(it, CPU=2) for it in "abcd"] + [node("small", CPU=1)]
    asked = {"CPU": 2.0}
    assert to_avoid(nodes, asked, 2, ["a", "b"]) == ["b", "a"]
    assert to_avoid(nodes, asked, 3, ["a", "b"]) == ["b"]
    assert to_avoid(nodes, asked, 4, ["a", "b"]) == []
    assert to_avoid(nodes, asked, 2, ["gone", "small"]) == []


def test_words_and_lines_come_as_they_were_sent() -> None:
    sent = {"do": "trial", "environment": {"A": "a 'b' \"c\"\n$HOME", "B": None}, "n": 3}
    assert of_word(as_word(sent)) == sent
    assert as_word(sent).isascii()
    log = 'noise\ncounterpoint-ray: {"kind": "started"}\nmore\ncounterpoint-ray: {"kind": "ende'
    assert last(log, "started", "ended") == {"kind": "started"}
    assert last(log, "ended") is None
