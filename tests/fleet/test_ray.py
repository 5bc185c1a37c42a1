"""Tasks on a real cluster of Ray give the same extracts, also when a worker is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import ray_cluster
from command_line import in_process
from counterpoint.fleet import cluster as fleet_cluster
from counterpoint.fleet.cluster import RayExecutor
from counterpoint.fleet.local import LocalExecutor
from counterpoint.fleet.tasks import gather_extracts
from made_fleet import killed_at, killed_once, write_profiles

MEMORY = 1 << 30

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_profiles(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """One of two CPUs, which each command joins and leaves as it does on any other."""
    with ray_cluster.cluster(nodes=1) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", made.address)
        yield


@pytest.mark.usefixtures("cluster")
def test_the_same_extracts_as_here(profiles: list[Path]) -> None:
    names = [str(profiles[0].parent)]
    here = gather_extracts(names, LocalExecutor(1), memory_bytes=MEMORY)
    there = gather_extracts(names, RayExecutor(), memory_bytes=MEMORY)
    assert there.extracts.equals(here.extracts)
    assert there.read_bytes == here.read_bytes
    done = in_process("explain", *names, "--executor", "ray", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["late"][0]["name"] == "host-02 device 1"


@pytest.mark.usefixtures("cluster")
def test_a_killed_worker_costs_nothing_but_time(
    profiles: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.xplane.pb").write_bytes(b"")
    marker = tmp_path / "killed"
    monkeypatch.setattr(fleet_cluster, "reduce_profile", killed_once(str(marker)))
    names = [str(profiles[0].parent), str(tmp_path)]
    found = gather_extracts(names, RayExecutor(), memory_bytes=MEMORY)
    assert marker.exists()
    assert found.retried == 1
    assert [Path(each.name).name for each in found.failures] == ["a.xplane.pb"]
    assert len(found.extracts) == len(profiles)


@pytest.mark.usefixtures("cluster")
def test_a_host_whose_workers_all_die_is_named(
    profiles: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is that of the other hosts."""
    monkeypatch.setattr(fleet_cluster, "reduce_profile", killed_at("host-01"))
    done = in_process("explain", profiles[0].parent, "--executor", "ray", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (lost,) = found["left_out"]
    assert lost["name"] == str(profiles[1])
    assert "lost 3 times" in lost["what"]
    rest = [profile for profile in profiles if profile != profiles[1]]
    alone = json.loads(in_process("explain", *rest, "--executor", "ray", "--json").stdout)
    for name in ("step_ms", "late", "collectives", "hosts"):
        assert found[name] == alone[name]
    strict = in_process("explain", profiles[0].parent, "--executor", "ray", "--strict")
    assert (strict.returncode, str(profiles[1]) in strict.stderr) == (3, True)
