"""Ray: each trial is a gang of actors, one on each node of a placement group that many trials use.

The tuner is a driver of the cluster (ray_cluster.py). When it dies, Ray gives the nodes back and
ends its actors, and with them the keepers of all ranks (ray_node.py).
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from counterpoint.core.errors import UsageError
from counterpoint.tune.executors.arrival import Arrival
from counterpoint.tune.executors.executor import Ended, EndedKind, Job, Shape, StoppedWaiting
from counterpoint.tune.executors.ray_cluster import (
    Cluster,
    Member,
    refuse_other_versions,
    to_avoid,
    usual_bundle,
)
from counterpoint.tune.executors.ray_node import Assignment, Node
from counterpoint.tune.executors.told import launcher_log, told

_NAME: Final = "ray"
_SAY_S: Final = 10.0
_ELSEWHERE_S: Final = 5.0
"""Nodes other than those of earlier allocations are waited for no longer than this."""
_START_S: Final = 120.0
"""A busy node may need this long to start the process of an actor."""
_END_S: Final = 90.0
_DEATH_S: Final = 40.0
"""Ray may need this long to notice that a node has died, and not one process alone."""
_SETTINGS: Final = ("XLA_", "JAX_", "NCCL_", "LIBTPU_")
_NOT_SETTINGS: Final = ("JAX_COORDINATOR", "JAX_PROCESS", "JAX_NUM_PROCESSES", "JAX_LOCAL_DEVICE")


def _silent(text: str) -> None:
    del text


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """A cluster of Ray.

    Args:
        shape: Nodes, and processes on each.
        address: HOST:PORT on a node of the cluster, ray://HOST:PORT elsewhere; None for
            RAY_ADDRESS, or the cluster that runs on this machine.
        bundle: Resources requested on each node; None for all its GPUs, or all its CPUs.
        wait_s: Longest wait for nodes.
        say: Hears what is waited for.
        stopped: Ends the waiting once it is true.
    """

    shape: Shape = field(default_factory=Shape)
    address: str | None = None
    bundle: Mapping[str, float] | None = None
    wait_s: float = 600.0
    say: Callable[[str], None] = _silent
    stopped: Callable[[], bool] = lambda: False
    _used: list[str] = field(default_factory=list[str], compare=False)
    _cluster: Cluster = field(default_factory=Cluster, compare=False)

    @property
    def name(self) -> str:
        return _NAME

    def open(self) -> RayAllocation:
        """Wait for nodes; those of earlier allocations only if the cluster has no others."""
        self._cluster.join(self.address)
        try:
            group, bundle = self._granted()
            try:
                count = self.shape.nodes
                members = self._cluster.members(group, count, self.wait_s, self._stop_waiting)
                refuse_other_versions(members)
            except BaseException:
                self._cluster.give_back(group)
                raise
        except BaseException:
            self._cluster.leave()
            raise
        self._used.extend(member.node for member in members)
        return RayAllocation(self._cluster, group, bundle, members)

    def sweep(self, identity: str) -> None:
        """Kill what is left of a gang; Ray itself has ended its actors and given back the nodes."""
        name, _, mark = identity.partition(":")
        if name != _NAME or not mark:
            return
        self._cluster.join(self.address)
        try:
            self._cluster.end_marked(mark, [node["NodeID"] for node in self._cluster.alive()])
        finally:
            self._cluster.leave()

    def describe(self) -> str:
        shape = self.shape
        count = f"{shape.nodes} node{'' if shape.nodes == 1 else 's'}"
        per = f"{shape.ranks_per_node} on each" if shape.ranks_per_node else f"one per {shape.per}"
        where = self.address or os.environ.get("RAY_ADDRESS") or "this machine's cluster"
        return f"{self.name}: {count} of {where}, processes: {per}"

    def _granted(self) -> tuple[Any, Mapping[str, float]]:
        """A placement group with its nodes, and what it has on each."""
        cluster, count = self._cluster, self.shape.nodes
        bundle = self.bundle or usual_bundle(cluster.alive(), count)
        if bundle is None:
            raise self._refused(f"{count} x a GPU or a CPU")
        wanted = f"{count} x {dict(bundle)}"
        if avoid := to_avoid(cluster.alive(), bundle, count, self._used):
            group = cluster.request(count, bundle, avoid)
            if group and cluster.is_granted(group, _ELSEWHERE_S, self._stop_waiting):
                return group, bundle
        group, heard = cluster.request(count, bundle), 0.0

        def look() -> None:
            nonlocal heard
            self._stop_waiting()
            if time.monotonic() - heard > _SAY_S:
                heard = time.monotonic()
                self.say(f"waiting for {wanted}: the cluster has {cluster.summary()}")

        if not cluster.is_granted(group, self.wait_s, look):
            raise self._refused(f"{wanted} within {self.wait_s:g} s")
        return group, bundle

    def _stop_waiting(self) -> None:
        if self.stopped():
            raise StoppedWaiting("stopped while it waited for nodes of the cluster")

    def _refused(self, wanted: str) -> UsageError:
        return UsageError(
            f"the cluster of Ray does not grant {wanted}",
            why=f"it has {self._cluster.summary()}",
            next="ask for what there is, or wait until others are done",
        )


class RayAllocation:
    """A placement group with one bundle on each node. All its gangs share one mark."""

    def __init__(
        self, cluster: Cluster, group: object, bundle: Mapping[str, float], members: list[Member]
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._bundle = bundle
        self._members = members
        self._mark = uuid.uuid4().hex
        self._gang: RayGang | None = None
        self._open = True

    @property
    def identity(self) -> str:
        return f"{_NAME}:{self._mark}"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Host names, with the start of Ray's node ID where one host runs several nodes."""
        hosts = [member.host for member in self._members]
        return tuple(
            member.host if hosts.count(member.host) == 1 else f"{member.host}/{member.node[:8]}"
            for member in self._members
        )

    def start(self, job: Job) -> RayGang:
        ranks = self._ranks_per_node(job.shape)
        gang = self._gang = RayGang(self._cluster, self._members[: job.shape.nodes], self._mark)
        if gang.poll() is None:
            try:
                gang.run(job, ranks, self._group, self._bundle)
            except BaseException:
                gang.kill()
                raise
        return gang

    def close(self) -> None:
        if not self._open:
            return
        if self._gang is not None:
            self._gang.kill()
        self._open = False
        self._cluster.give_back(self._group)
        self._cluster.leave()

    def _ranks_per_node(self, shape: Shape) -> int:
        if shape.nodes > len(self._members):
            raise UsageError(
                f"{shape.nodes} nodes, but the allocation has {len(self._members)}",
                next=f"--nodes {len(self._members)}",
            )
        if shape.ranks_per_node is not None:
            return shape.ranks_per_node
        gpus = int(self._bundle.get("GPU", 0))
        if shape.per == "gpu" and not gpus:
            raise UsageError(
                "a process per GPU, but Ray knows of no GPUs on these nodes",
                next="--ranks-per-node 1",
            )
        return gpus if shape.per == "gpu" else 1


class RayGang:
    """One actor on each node, each of which runs its node's ranks.

    A node that has left the cluster ends it before it starts, also where Ray has moved its bundle:
    what runs on another node can't be compared.
    """

    def __init__(self, cluster: Cluster, members: list[Member], mark: str) -> None:
        self._cluster = cluster
        self._members = members
        self._mark = mark
        self._ended = cluster.departed(members)
        self._actors: list[Any] = []
        self._runs: list[Any] = []
        self._directory = Path()
        self._arrival = Arrival(self._directory, 0)
        self._failed: tuple[int, str] | None = None
        self._lost: tuple[float, Exception] | None = None

    @property
    def identity(self) -> str:
        return f"{_NAME}:{self._mark}"

    def run(self, job: Job, ranks: int, group: object, bundle: Mapping[str, float]) -> None:
        """Start the ranks once every node sees the study and the working directory."""
        others = {name: amount for name, amount in bundle.items() if name not in ("CPU", "GPU")}
        self._actors = self._cluster.in_bundles(
            group,
            self._cluster.ray.remote(Node),
            len(self._members),
            num_cpus=bundle.get("CPU", 0),
            num_gpus=bundle.get("GPU", 0),
            resources=others,
            max_concurrency=4,
        )
        self._directory = job.directory.absolute()
        size = ranks * len(self._members)
        self._arrival = Arrival(self._directory, size)
        assignment = Assignment(
            job=replace(job, directory=self._directory, environment=dict(job.environment)),
            mark=self._mark,
            ranks=range(0),
            size=size,
            coordinator=self._look_around(Path.cwd()),
            settings=settings_of(os.environ),
            cwd=Path.cwd(),
        )
        for number, actor in enumerate(self._actors):
            mine = range(number * ranks, (number + 1) * ranks)
            self._runs.append(actor.run.remote(replace(assignment, ranks=mine)))

    def _look_around(self, cwd: Path) -> str:
        """Where rank 0 may listen. A UsageError where a node sees other paths than the tuner."""
        study = self._directory.parent
        study.mkdir(parents=True, exist_ok=True)
        marker = study / f".{uuid.uuid4().hex}.seen"
        marker.touch()
        try:
            asks = [actor.see.remote(marker, cwd) for actor in self._actors]
            views = self._cluster.answers(asks, _START_S)
        finally:
            marker.unlink(missing_ok=True)
        for member, (_, unseen) in zip(self._members, views, strict=True):
            if unseen is not None:
                raise UsageError(
                    f"{member.host} does not see {study if unseen == marker else unseen}",
                    why="on Ray every node writes its ranks' results into the study, and runs the"
                    " command in the tuner's working directory",
                    next="keep both on a file system that all nodes and this machine share:"
                    " -o /shared/DIRECTORY",
                )
        return views[0][0]

    def poll(self) -> Ended | None:
        if self._ended is None and self._runs:
            self._collect()
        if self._ended is None and self._lost is not None:
            self._ended = self._blame(*self._lost)
        elif self._ended is None and self._directory.name and not self._runs:
            self._ended = self._exited(*(self._failed or (0, "")))
        return self._ended

    def kill(self) -> None:
        if self._ended is None:
            self._end()
            self._ended = Ended(kind=EndedKind.KILLED)

    def _collect(self) -> None:
        """Take the results that are there; the first failure ends the other nodes' ranks."""
        ray = self._cluster.ray
        done, self._runs = ray.wait(self._runs, num_returns=len(self._runs), timeout=0)
        whole = self._failed is None and self._lost is None
        for run in done:
            try:
                code, text = ray.get(run)
            except ray.exceptions.RayError as failure:
                self._lost = self._lost or (time.monotonic(), failure)
            else:
                self._failed = self._failed or ((code, text) if code else None)
        if whole and (self._failed or self._lost):
            for actor in self._actors:
                actor.stop.remote()

    def _exited(self, code: int, text: str) -> Ended | None:
        """How all ranks ended, once the Run is complete here; None until then."""
        log = launcher_log(self._directory)
        if code:
            log.write_text(text, encoding="utf-8")
        if not self._arrival.is_here(code):
            return None
        self._end()
        return told(self._directory, code, log)

    def _blame(self, since: float, failure: Exception) -> Ended | None:
        """What took an actor away: its node, or something on it; None until that is known."""
        ended = self._cluster.departed(self._members)
        if ended is None and getattr(failure, "preempted", False):
            ended = Ended(kind=EndedKind.PREEMPTED, detail=str(failure).strip())
        if ended is None and time.monotonic() - since > _DEATH_S:
            ended = Ended(kind=EndedKind.LOST, detail=str(failure).strip())
        if ended is not None:
            self._end()
        return ended

    def _end(self) -> None:
        """End all ranks in order where an actor still does that, and kill what is left."""
        ray = self._cluster.ray
        try:
            ray.get([actor.kill.remote() for actor in self._actors], timeout=_END_S)
        except ray.exceptions.RayError:
            self._cluster.end_marked(self._mark, [member.node for member in self._members])
        for actor in self._actors:
            ray.kill(actor)


def settings_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of the tuner that are settings, and so hold for its trials.

    The others say where the tuner is, or are secret; the nodes have their own.
    """
    return {
        name: text
        for name, text in environ.items()
        if name.startswith(_SETTINGS) and not name.startswith(_NOT_SETTINGS)
    }
