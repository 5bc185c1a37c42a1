"""Trials on a Ray cluster: the executor, its allocations, and gangs with an actor on each node."""

from __future__ import annotations

import logging
import os
import signal
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import ray as untyped
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from counterpoint import __version__
from counterpoint.core import UsageError
from counterpoint.tune.executors.executor import (
    GangEnd,
    GangEndKind,
    ProcessShape,
    StoppedWaiting,
    TrialJob,
    ranks_on_node,
    settings_of,
    shape_text,
)
from counterpoint.tune.executors.exit_report import Arrival, exit_report
from counterpoint.tune.executors.local import MARK, kill_marked
from counterpoint.tune.executors.process_supervisor import USUAL_TIMES, EndingTimes
from counterpoint.tune.executors.ray_node import BUSY_S, NodeActor, RayMember, this_node

ray: Any = untyped  # most of its functions have no types
_LOOK_S: Final = 0.3
_SAY_FIRST_S: Final = 2.0
_SAY_S: Final = 10.0
_START_S: Final = 120.0
"""A busy node may need this long to start the process of an actor."""
_REACH_S: Final = 10.0
_SWEEP_S: Final = 150.0
_CLIENT_PORT: Final = 10001
_ADDRESSES: Final = (
    "the tuner joins the cluster by its address;"
    " it is ray://HOST:10001, or HOST:6379 on a node of the cluster itself"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """A Ray cluster.

    Args:
        shape: Nodes, and processes on each.
        address: HOST:PORT on a node of the cluster, ray://HOST:PORT elsewhere; None for
            RAY_ADDRESS, or the cluster that runs on this machine.
        bundle: Resources requested on each node; None for all its GPUs, or all its CPUs.
        wait_s: Longest wait for nodes.
        node_death_s: Ray may need this long to tell the death of a node from that of a process.
        say: Receives reports on what is waited for.
        stopped: Ends the wait once it is true.
        ending: How long ranks have that are asked to end.
        name: Its `ExecutorKind.name`.
    """

    shape: ProcessShape = field(default_factory=ProcessShape)
    address: str | None = None
    bundle: Mapping[str, float] | None = None
    wait_s: float = 600.0
    node_death_s: float = 40.0
    say: Callable[[str], None] = lambda _: None
    stopped: Callable[[], bool] = lambda: False
    ending: EndingTimes = USUAL_TIMES
    name: str = "ray"

    def open(self) -> RayAllocation:
        """Join the cluster, and wait for nodes."""
        with ExitStack() as undo:
            undo.enter_context(_connected(self.address))
            held = undo.enter_context(self._nodes())
            return RayAllocation(self, held, undo.pop_all())

    @contextmanager
    def _nodes(self) -> Generator[HeldNodes]:
        """Hold nodes that can run trials.

        Those that Ray grants may still have to be set up, for example by the job's runtime_env.
        """
        count = self.shape.nodes
        nodes = [node["Resources"] for node in _alive_nodes()]
        bundle = self.bundle or usual_bundle(nodes, count)
        if bundle is None:
            raise _not_granted(f"{count} x a GPU or a CPU")
        wanted = f"{count} x {dict(bundle)}"
        strategy = "STRICT_SPREAD" if count > 1 else "STRICT_PACK"
        group = ray.util.placement_group([dict(bundle)] * count, strategy=strategy)
        try:
            if self._answers([group.ready()], wanted) is None:
                raise _not_granted(f"{wanted} within {self.wait_s:g} s")
            look = ray.remote(num_cpus=0, max_retries=0)(this_node)
            places = [PlacementGroupSchedulingStrategy(group, number) for number in range(count)]
            looks = [look.options(scheduling_strategy=place).remote() for place in places]
            try:
                members = self._answers(looks, "its nodes to be set up")
            except ray.exceptions.RayError as failure:
                raise _unfit("can't run Counterpoint", str(failure).strip()) from None
            if members is None:
                raise UsageError("the nodes of the Ray cluster do not answer", next="ray status")
            for member in members:
                if member.version != __version__:
                    raise _unfit(f"has Counterpoint {member.version}", f"it is {member.host}")
            yield HeldNodes(group, bundle, members)
        finally:
            ray.util.remove_placement_group(group)

    def _answers(self, refs: Sequence[Any], wanted: str) -> list[Any] | None:
        """Wait for the results of tasks; return None if they do not come in time."""
        began = time.monotonic()
        due_s = _SAY_FIRST_S
        while ray.wait(refs, num_returns=len(refs), timeout=_LOOK_S)[1]:
            elapsed_s = time.monotonic() - began
            if self.stopped():
                raise StoppedWaiting("stopped while waiting for nodes of the cluster")
            if elapsed_s > self.wait_s:
                return None
            if elapsed_s > due_s:
                due_s += _SAY_S
                self.say(f"waiting for {wanted}: {_summary()}")
        return ray.get(refs)

    def sweep(self, identity: str) -> None:
        """Kill what is left of a gang; Ray itself has ended its actors and released the nodes."""
        name, _, mark = identity.partition(":")
        if name == self.name and mark:
            with _connected(self.address):
                _end_marked(mark, [node["NodeID"] for node in _alive_nodes()])

    def describe(self) -> str:
        where = self.address or os.environ.get("RAY_ADDRESS") or "this machine's cluster"
        return f"{self.name}: {where}, {shape_text(self.shape)}"


class HeldNodes(NamedTuple):
    """A placement group, its resources on each node, and the nodes in the order of its bundles."""

    group: Any
    bundle: Mapping[str, float]
    members: Sequence[RayMember]


class RayAllocation:
    """A placement group with one bundle on each node. All its gangs share one mark."""

    def __init__(self, executor: Ray, held: HeldNodes, undo: ExitStack) -> None:
        self.executor = executor
        self.held = held
        self._undo = undo
        self._mark = uuid.uuid4().hex
        self._gang: RayGang | None = None

    @property
    def identity(self) -> str:
        return f"{self.executor.name}:{self._mark}"

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(member.host for member in self.held.members)

    def start(self, job: TrialJob) -> RayGang:
        """Start a job, unless a node has left: then this job and all others end with that report.

        Ray may have moved the node's bundle, but results from another node can't be compared.
        """
        gpus = int(self.held.bundle.get("GPU", 0))
        ranks = ranks_on_node(job.shape, len(self.held.members), gpus, "the Ray allocation")
        environment = {**settings_of(os.environ), **job.environment, MARK: self._mark}
        job = replace(job, directory=job.directory.absolute(), environment=environment)
        self._gang = gang = RayGang(job, self)
        if gang.poll() is None:
            try:
                gang.run(ranks)
            except BaseException:
                gang.kill()
                raise
        return gang

    def close(self) -> None:
        if self._gang is not None:
            self._gang.kill()
        self._undo.close()


class RayGang:
    """One actor on each node, each of which runs its node's ranks."""

    def __init__(self, job: TrialJob, allocation: RayAllocation) -> None:
        self._job = job
        self._allocation = allocation
        self._members = allocation.held.members[: job.shape.nodes]
        self._actors: list[Any] = []
        self._runs: list[Any] = []
        self._arrival: Arrival | None = None
        self._code = 0
        self._lost: tuple[float, Exception] | None = None
        self._ended = _departed(self._members)

    @property
    def identity(self) -> str:
        return self._allocation.identity

    def run(self, ranks: int) -> None:
        """Start so many ranks on each node, once each sees what they need."""
        held, ending = self._allocation.held, self._allocation.executor.ending
        actor, nodes = ray.remote(NodeActor), len(self._members)
        for node in range(nodes):
            place = actor.options(
                num_cpus=held.bundle.get("CPU", 0),
                num_gpus=held.bundle.get("GPU", 0),
                max_concurrency=4,
                scheduling_strategy=PlacementGroupSchedulingStrategy(held.group, node),
            )
            mine = range(node * ranks, (node + 1) * ranks)
            self._actors.append(place.remote(self._job, mine, nodes * ranks, Path.cwd(), ending))
        coordinator = self._look_around()
        self._arrival = Arrival(self._job.directory, ranks * nodes)
        self._runs = [actor.run.remote(coordinator) for actor in self._actors]

    def _look_around(self) -> str:
        """Return an address for rank 0; raise a UsageError if a node lacks the tuner's paths."""
        study, cwd = self._job.directory.parent, Path.cwd()
        study.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=".seen-", dir=study) as marker:
            looks = [actor.see.remote(Path(marker.name), cwd) for actor in self._actors]
            try:
                views = ray.get(looks, timeout=_START_S)
            except ray.exceptions.RayError as failure:
                raise UsageError(
                    "a node of the Ray cluster can't start a trial",
                    why=str(failure).strip() or f"it did not answer within {_START_S:g} s",
                    next="ray status",
                ) from None
        for member, (_, unseen) in zip(self._members, views, strict=True):
            if unseen is not None:
                raise UsageError(
                    f"{member.host} does not see {cwd if unseen == cwd else study}",
                    why="on Ray every node writes its ranks' results into the study, and runs the"
                    " command in the tuner's working directory",
                    next="use -o /shared/DIRECTORY: a file system that all nodes share with this"
                    " machine",
                )
        return views[0][0]

    def poll(self) -> GangEnd | None:
        if self._ended is None and self._arrival is not None:
            self._collect()
            if self._lost is not None:
                self._ended = self._blame(*self._lost)
            elif not self._runs and self._arrival.is_here(self._code):
                self._ended = exit_report(self._job.directory, self._code)
            if self._ended is not None:
                self._end()
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
        whole = not self._code and self._lost is None
        for run in done:
            try:
                code = ray.get(run)
            except ray.exceptions.RayError as failure:
                self._lost = self._lost or (time.monotonic(), failure)
            else:
                self._code = self._code or code
        if whole and (self._code or self._lost):
            for actor in self._actors:
                actor.stop.remote()

    def _blame(self, since: float, failure: Exception) -> GangEnd | None:
        """Return what ended an actor: its node, or something on it; None until that is known."""
        if ended := _departed(self._members):
            return ended
        is_actor = isinstance(failure, ray.exceptions.RayActorError)
        if getattr(failure, "preempted", False):
            kind = GangEndKind.PREEMPTED
        elif is_actor and time.monotonic() - since < self._allocation.executor.node_death_s:
            return None
        else:
            kind = GangEndKind.LOST
        return GangEnd(kind=kind, detail=str(failure).strip())

    def _end(self) -> None:
        """End all ranks in order if an actor still does that, and kill what is left."""
        within_s = self._allocation.executor.ending.total_s() + 2 * BUSY_S
        try:
            ray.get([actor.kill.remote() for actor in self._actors], timeout=within_s)
        except ray.exceptions.RayError:
            mark = self.identity.partition(":")[2]
            _end_marked(mark, [member.node for member in self._members])
        for actor in self._actors:
            ray.kill(actor)


def usual_bundle(nodes: Sequence[Mapping[str, float]], count: int) -> dict[str, float] | None:
    """Return all GPUs of a node, or all CPUs if there are no GPUs; None if nodes are missing.

    Nodes may differ: it is what the `count` nodes that have most have in common.
    """
    for resource, more in (("GPU", {"CPU": 1.0}), ("CPU", {})):
        amounts = sorted((node.get(resource, 0.0) for node in nodes), reverse=True)
        if len(amounts) >= count and amounts[count - 1]:
            return {resource: amounts[count - 1], **more}
    return None


def _not_granted(wanted: str) -> UsageError:
    return UsageError(
        f"the Ray cluster does not grant {wanted}",
        why=_summary(),
        next="request less, or wait until others are done",
    )


def _summary() -> str:
    """Describe the cluster, and how much of it is free."""
    has, free = ray.cluster_resources(), ray.available_resources()
    amounts = (f"{free.get(name, 0):g} of {has.get(name, 0):g} {name}s" for name in ("GPU", "CPU"))
    return f"the cluster has {len(_alive_nodes())} nodes, and free are {', '.join(amounts)}"


@contextmanager
def _connected(address: str | None) -> Generator[None]:
    """Be a driver of the cluster; a connection that exists already is used and left open."""
    if ray.is_initialized():
        yield
        return
    _connect(address or os.environ.get("RAY_ADDRESS") or "auto")
    try:
        yield
    finally:
        ray.shutdown()


def _connect(address: str) -> None:
    """Join the cluster. Ray would try an address for minutes, and then end this process."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if address != "auto":
            socket.create_connection(_host_and_port(address), _REACH_S).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as failure:
        ray.shutdown()  # a client that failed to connect would block the next one
        raise UsageError(
            f"no Ray cluster answers at {address}: {' '.join(str(failure).split())[:300]}",
            why=_ADDRESSES,
            next="ray status",
        ) from None
    finally:  # Ray replaces the handler by one that exits at once
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _host_and_port(address: str) -> tuple[str | None, int]:
    parts = urlsplit(address if "://" in address else f"//{address}")
    if parts.scheme.startswith("http"):
        raise UsageError(
            f"{address} is the address of Ray's dashboard, which starts no trials",
            why=_ADDRESSES,
            next=f"use --ray-address ray://{parts.hostname}:{_CLIENT_PORT}",
        )
    return parts.hostname, parts.port or _CLIENT_PORT


def _unfit(what: str, why: str) -> UsageError:
    package = f"counterpoint=={__version__}"
    return UsageError(
        f"a node of the Ray cluster {what}, but trials need {__version__} on every node",
        why=f"{why}; the runtime_env of a Ray job can install it: ray job submit"
        f""" --runtime-env-json '{{"pip": ["{package}"]}}' -- counterpoint tune ...""",
        next=f"pip install '{package}'",
    )


def _alive_nodes() -> list[Mapping[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _departed(members: Sequence[RayMember]) -> GangEnd | None:
    """Return the end of a gang whose nodes have left the cluster; None while all are there."""
    entries = {node["NodeID"]: node for node in ray.nodes()}
    gone = [member for member in members if not entries.get(member.node, {}).get("Alive")]
    if not gone:
        return None
    reasons = {entries.get(member.node, {}).get("DeathReasonMessage") or "" for member in gone}
    why = "; ".join(sorted(reasons - {""})) or "Ray gives no reason"
    return GangEnd(
        kind=GangEndKind.PREEMPTED if "preempt" in why.lower() else GangEndKind.NODE_FAULT,
        detail=f"{', '.join(member.host for member in gone)} left the cluster: {why}",
    )


def _end_marked(mark: str, nodes: Sequence[str]) -> None:
    """Kill all processes with a gang's mark on these nodes.

    The task fails on a node that is dead, or has no Counterpoint and so no such process.
    """
    kill = ray.remote(num_cpus=0, max_retries=0)(kill_marked)
    places = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    kills = [kill.options(scheduling_strategy=place).remote(mark) for place in places]
    ray.wait(kills, num_returns=len(kills), timeout=_SWEEP_S)
