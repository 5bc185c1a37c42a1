"""Ray: each trial is a gang of actors, one on each node of a placement group that many trials use.

The tuner is a driver of the cluster (ray_cluster.py). When it dies, Ray releases the nodes and ends
its actors, and with them the supervisors of all ranks (ray_node.py).
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from counterpoint.core import UsageError
from counterpoint.tune.executors.executor import GangEnd, GangEndKind, ProcessShape, TrialJob
from counterpoint.tune.executors.exit_report import Arrival, exit_report, launcher_log
from counterpoint.tune.executors.ray_cluster import (
    Connection,
    HeldNodes,
    RayMember,
    alive_nodes,
    answers,
    departed,
    end_marked,
    hold_nodes,
    ray,
)
from counterpoint.tune.executors.ray_node import NodeActor

_NAME: Final = "ray"
_START_S: Final = 120.0
"""A busy node may need this long to start the process of an actor."""
_END_S: Final = 90.0
_DEATH_S: Final = 40.0
"""Ray may need this long to tell the death of a node from that of a process."""
_SETTINGS: Final = ("XLA_", "JAX_", "NCCL_", "LIBTPU_")
_NOT_SETTINGS: Final = ("JAX_COORDINATOR", "JAX_PROCESS", "JAX_NUM_PROCESSES", "JAX_LOCAL_DEVICE")


def _silent(text: str) -> None:
    del text


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """A Ray cluster.

    Args:
        shape: Nodes, and processes on each.
        address: HOST:PORT on a node of the cluster, ray://HOST:PORT elsewhere; None for
            RAY_ADDRESS, or the cluster that runs on this machine.
        bundle: Resources requested on each node; None for all its GPUs, or all its CPUs.
        wait_s: Longest wait for nodes.
        say: Receives reports on what is waited for.
        stopped: Ends the wait once it is true.
    """

    shape: ProcessShape = field(default_factory=ProcessShape)
    address: str | None = None
    bundle: Mapping[str, float] | None = None
    wait_s: float = 600.0
    say: Callable[[str], None] = _silent
    stopped: Callable[[], bool] = lambda: False
    _used: list[str] = field(default_factory=list[str], compare=False)
    _connection: Connection = field(default_factory=Connection, compare=False)

    @property
    def name(self) -> str:
        return _NAME

    def open(self) -> RayAllocation:
        """Wait for nodes; those of earlier allocations only if the cluster has no others."""
        with ExitStack() as undo:
            self._connection.join(self.address)
            undo.callback(self._connection.leave)
            holding = hold_nodes(
                self.shape.nodes,
                self.bundle,
                self._used,
                wait_s=self.wait_s,
                say=self.say,
                stopped=self.stopped,
            )
            undo.callback(holding.give_back)
            self._used.extend(member.node for member in holding.members)
            return RayAllocation(holding, undo.pop_all())

    def sweep(self, identity: str) -> None:
        """Kill what is left of a gang; Ray itself has ended its actors and released the nodes."""
        name, _, mark = identity.partition(":")
        if name == _NAME and mark:
            self._connection.join(self.address)
            try:
                end_marked(mark, [node["NodeID"] for node in alive_nodes()])
            finally:
                self._connection.leave()

    def describe(self) -> str:
        shape = self.shape
        count = f"{shape.nodes} node{'' if shape.nodes == 1 else 's'}"
        per = f"{shape.ranks_per_node} on each" if shape.ranks_per_node else f"one per {shape.per}"
        where = self.address or os.environ.get("RAY_ADDRESS") or "this machine's cluster"
        return f"{self.name}: {count} of {where}, processes: {per}"


class RayAllocation:
    """A placement group with one bundle on each node. All its gangs share one mark."""

    def __init__(self, holding: HeldNodes, undo: ExitStack) -> None:
        self._holding = holding
        self._undo = undo
        self._mark = uuid.uuid4().hex
        self._gang: RayGang | None = None

    @property
    def identity(self) -> str:
        return f"{_NAME}:{self._mark}"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Host names, with the start of Ray's node ID if one host runs several nodes."""
        members = self._holding.members
        hosts = [member.host for member in members]
        return tuple(
            member.host if hosts.count(member.host) == 1 else f"{member.host}/{member.node[:8]}"
            for member in members
        )

    def start(self, job: TrialJob) -> RayGang:
        """Start a job, unless a node has left: then this job and all others end with that report.

        Ray may have moved the node's bundle, but results from another node can't be compared.
        """
        ranks = self._ranks_per_node(job.shape)
        members = self._holding.members[: job.shape.nodes]
        directory = job.directory.absolute()
        gang = self._gang = RayGang(members, directory, self._mark)
        if gang.poll() is None:
            try:
                gang.run(self._actors(job, directory, ranks), ranks)
            except BaseException:
                gang.kill()
                raise
        return gang

    def _actors(self, job: TrialJob, directory: Path, ranks: int) -> list[Any]:
        """One actor on each node, which takes all of its bundle."""
        nodes, bundle = range(job.shape.nodes), dict(self._holding.bundle)
        options = {
            "num_cpus": bundle.pop("CPU", 0),
            "num_gpus": bundle.pop("GPU", 0),
            "resources": bundle,
            "max_concurrency": 4,
        }
        work: dict[str, object] = {
            "job": replace(job, directory=directory, environment=dict(job.environment)),
            "mark": self._mark,
            "size": len(nodes) * ranks,
            "settings": settings_of(os.environ),
            "cwd": Path.cwd(),
        }
        return [
            ray.remote(NodeActor)
            .options(**options, scheduling_strategy=self._holding.place(node))
            .remote(**work, ranks=range(node * ranks, (node + 1) * ranks))
            for node in nodes
        ]

    def close(self) -> None:
        if self._gang is not None:
            self._gang.kill()
        self._undo.close()

    def _ranks_per_node(self, shape: ProcessShape) -> int:
        if shape.nodes > (available := len(self._holding.members)):
            raise UsageError(
                f"{shape.nodes} nodes, but the allocation has {available}",
                next=f"--nodes {available}",
            )
        if shape.ranks_per_node is not None:
            return shape.ranks_per_node
        gpus = int(self._holding.bundle.get("GPU", 0))
        if shape.per == "gpu" and not gpus:
            raise UsageError(
                "one process per GPU was requested, but these nodes have no GPUs in Ray",
                next="--ranks-per-node 1",
            )
        return gpus if shape.per == "gpu" else 1


class RayGang:
    """One actor on each node, each of which runs its node's ranks."""

    def __init__(self, members: list[RayMember], directory: Path, mark: str) -> None:
        self._members = members
        self._directory = directory
        self._mark = mark
        self._actors: list[Any] = []
        self._runs: list[Any] = []
        self._arrival: Arrival | None = None
        self._failed: tuple[int, str] | None = None
        self._lost: tuple[float, Exception] | None = None
        self._ended = departed(members)

    @property
    def identity(self) -> str:
        return f"{_NAME}:{self._mark}"

    def run(self, actors: list[Any], ranks: int) -> None:
        """Start the ranks once every node sees the study and the working directory."""
        self._actors = actors
        coordinator = self._look_around()
        self._arrival = Arrival(self._directory, ranks * len(actors))
        self._runs = [actor.run.remote(coordinator) for actor in actors]

    def _look_around(self) -> str:
        """Return an address for rank 0; raise a UsageError if a node lacks the tuner's paths."""
        study = self._directory.parent
        study.mkdir(parents=True, exist_ok=True)
        marker = study / f".{uuid.uuid4().hex}.seen"
        marker.touch()
        try:
            looks = [actor.see.remote(marker) for actor in self._actors]
            views = answers(looks, _START_S)
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

    def poll(self) -> GangEnd | None:
        if self._ended is None and self._arrival is not None:
            self._collect()
            if self._lost is not None:
                self._ended = self._blame(*self._lost)
            elif not self._runs:
                self._ended = self._exited(self._arrival, *(self._failed or (0, "")))
        return self._ended

    def kill(self) -> None:
        if self._ended is None:
            self._end()
            self._ended = GangEnd(kind=GangEndKind.KILLED)

    def _collect(self) -> None:
        """Collect the available results; the first failure ends the other nodes' ranks."""
        if not self._runs:
            return
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

    def _exited(self, arrival: Arrival, code: int, text: str) -> GangEnd | None:
        """Return how all ranks ended, once the Run is complete here; None until then."""
        if code:
            launcher_log(self._directory).write_text(text, encoding="utf-8")
        if not arrival.is_here(code):
            return None
        self._end()
        return exit_report(self._directory, code)

    def _blame(self, since: float, failure: Exception) -> GangEnd | None:
        """Return what ended an actor: its node, or something on it; None until that is known."""
        ended = departed(self._members)
        if ended is None and getattr(failure, "preempted", False):
            ended = GangEnd(kind=GangEndKind.PREEMPTED, detail=str(failure).strip())
        alone = not isinstance(failure, ray.exceptions.RayActorError)
        if ended is None and (alone or time.monotonic() - since > _DEATH_S):
            ended = GangEnd(kind=GangEndKind.LOST, detail=str(failure).strip())
        if ended is not None:
            self._end()
        return ended

    def _end(self) -> None:
        """End all ranks in order if an actor still does that, and kill what is left."""
        try:
            ray.get([actor.kill.remote() for actor in self._actors], timeout=_END_S)
        except ray.exceptions.RayError:
            end_marked(self._mark, [member.node for member in self._members])
        for actor in self._actors:
            ray.kill(actor)


def settings_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the tuner that are settings, and so apply to its trials.

    The others describe the tuner's machine, or are secret; the nodes have their own.
    """
    return {
        name: text
        for name, text in environ.items()
        if name.startswith(_SETTINGS) and not name.startswith(_NOT_SETTINGS)
    }
