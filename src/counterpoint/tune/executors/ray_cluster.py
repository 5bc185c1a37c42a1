"""A driver's view of a Ray cluster: join it, request nodes and run tasks, and leave it."""

from __future__ import annotations

import inspect
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import ray as untyped
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from counterpoint import __version__
from counterpoint.core import UsageError
from counterpoint.tune.executors.executor import GangEnd, GangEndKind, StoppedWaiting
from counterpoint.tune.executors.local import kill_marked

ray: Any = untyped  # most of its functions have no types
_LOOK_S: Final = 0.3
_SAY_S: Final = 10.0
_ELSEWHERE_S: Final = 5.0
"""The longest wait for nodes other than those of earlier allocations."""
_REACH_S: Final = 10.0
_SWEEP_S: Final = 150.0
_CLIENT_PORT: Final = 10001
_ADDRESSES: Final = "it is ray://HOST:10001, or HOST:6379 on a node of the cluster itself"

NodeEntry = Mapping[str, Any]
"""A node as `ray.nodes()` describes it."""
Look = Callable[[], None]
"""Called periodically during a wait; an exception from it ends the wait."""


class RayMember(NamedTuple):
    """A granted node: its ID and host, its Python, and the Counterpoint in it or why there is none.

    The problem is empty if Counterpoint could be imported.
    """

    node: str
    host: str
    python: str
    version: str
    problem: str


class Connection:
    """This process as a driver of a cluster, from its first `join` to the last `leave`.

    If the program around us has called `ray.init` already, its connection is used and left open.
    """

    def __init__(self) -> None:
        self._users = 0
        self._ours = False

    def join(self, address: str | None) -> None:
        if not ray.is_initialized():
            _connect(address or os.environ.get("RAY_ADDRESS") or "auto")
            self._ours = True
        self._users += 1

    def leave(self) -> None:
        self._users -= 1
        if self._ours and not self._users:
            ray.shutdown()
            self._ours = False


class HeldNodes(NamedTuple):
    """A placement group, its resources on each node, and the nodes in the order of its bundles."""

    group: Any
    bundle: Mapping[str, float]
    members: list[RayMember]

    def place(self, number: int) -> Any:  # noqa: ANN401
        """Return the scheduling strategy for work on one of the nodes."""
        return _placed(self.group, number)

    def give_back(self) -> None:
        ray.util.remove_placement_group(self.group)


def hold_nodes(
    count: int,
    bundle: Mapping[str, float] | None,
    used: Sequence[str],
    *,
    wait_s: float,
    say: Callable[[str], None],
    stopped: Callable[[], bool],
) -> HeldNodes:
    """Wait for nodes that can run trials; for used ones only if the cluster has no others.

    Without a bundle the usual one is requested. Nodes that Ray grants may still have to be set up,
    for example by the runtime_env of the job.
    """
    nodes = alive_nodes()
    bundle = bundle or usual_bundle(nodes, count)
    if bundle is None:
        raise _not_granted(f"{count} x a GPU or a CPU")
    wanted, heard = f"{count} x {dict(bundle)}", 0.0

    def look() -> None:
        nonlocal heard
        if stopped():
            raise StoppedWaiting("stopped while waiting for nodes of the cluster")
        if time.monotonic() - heard > _SAY_S:
            heard = time.monotonic()
            say(f"waiting for {wanted}: the cluster has {_summary()}")

    avoid = to_avoid(nodes, bundle, count, used)
    group = _group(count, bundle, avoid, _ELSEWHERE_S, look) if avoid else None
    group = group or _group(count, bundle, (), wait_s, look)
    if group is None:
        raise _not_granted(f"{wanted} within {wait_s:g} s")
    try:
        probe = ray.remote(num_cpus=0, max_retries=0)(_node_probe())
        places = [_placed(group, number) for number in range(count)]
        probes = [probe.options(scheduling_strategy=place).remote() for place in places]
        members = [RayMember(*facts) for facts in answers(probes, wait_s, look)]
        _refuse_other_versions(members)
    except BaseException:
        ray.util.remove_placement_group(group)
        raise
    return HeldNodes(group, bundle, members)


def _placed(group: Any, number: int) -> Any:  # noqa: ANN401
    return PlacementGroupSchedulingStrategy(group, number)


def _group(
    count: int, bundle: Mapping[str, float], avoid: Sequence[str], within_s: float, look: Look
) -> Any | None:  # noqa: ANN401
    """Create a placement group on that many nodes; return None if Ray does not grant it in time."""
    make, options = ray.util.placement_group, dict[str, object]()
    if avoid:
        selectors = "bundle_label_selector"  # newer than the oldest Ray that is supported
        if selectors not in inspect.signature(make).parameters:
            return None
        options[selectors] = [{"ray.io/node-id": f"!in({','.join(avoid)})"}] * count
    strategy = "STRICT_SPREAD" if count > 1 else "STRICT_PACK"
    group = make([dict(bundle)] * count, strategy=strategy, **options)
    until, granted, ready = time.monotonic() + within_s, False, group.ready()
    try:
        while not granted and time.monotonic() < until:
            granted = bool(ray.wait([ready], timeout=_LOOK_S)[0])
            if not granted:
                look()
    finally:
        if not granted:
            ray.util.remove_placement_group(group)
    return group if granted else None


def _not_granted(wanted: str) -> UsageError:
    return UsageError(
        f"the Ray cluster does not grant {wanted}",
        why=f"it has {_summary()}",
        next="request less, or wait until others are done",
    )


def _summary() -> str:
    """Describe the cluster, and how much of it is free."""
    free = ray.available_resources()
    amounts = ", ".join(f"{free.get(name, 0):g} {name}s" for name in ("GPU", "CPU"))
    return f"{summary_of(alive_nodes())}; free now: {amounts}"


def alive_nodes() -> list[NodeEntry]:
    return [node for node in ray.nodes() if node["Alive"]]


def answers(refs: list[Any], within_s: float, look: Look = lambda: None) -> list[Any]:
    """Return the results of tasks; raise a UsageError if a node gives none."""
    until = time.monotonic() + within_s
    while ray.wait(refs, num_returns=len(refs), timeout=_LOOK_S)[1]:
        look()
        if time.monotonic() > until:
            raise UsageError(
                f"the nodes of the cluster did not answer within {within_s:g} s",
                next="ray status",
            )
    try:
        return ray.get(refs)
    except ray.exceptions.RayError as failure:
        raise UsageError(
            "a node of the cluster can't run what a trial needs",
            why=str(failure).strip(),
            next="ray status",
        ) from None


def departed(members: Sequence[RayMember]) -> GangEnd | None:
    """Return the end of a gang whose nodes have left the cluster; None while all are there."""
    entries = {node["NodeID"]: node for node in ray.nodes()}
    gone = [(member.host, entries.get(member.node, {})) for member in members]
    gone = [(host, entry) for host, entry in gone if not entry.get("Alive")]
    if not gone:
        return None
    texts = [entry.get("DeathReasonMessage") or entry.get("DeathReason") for _, entry in gone]
    why = "; ".join(sorted({str(text) for text in texts if text})) or "Ray gives no reason"
    return GangEnd(
        kind=GangEndKind.PREEMPTED if "preempt" in why.lower() else GangEndKind.NODE_FAULT,
        detail=f"{', '.join(host for host, _ in gone)} left the cluster: {why}",
    )


def end_marked(mark: str, nodes: Sequence[str]) -> None:
    """Kill all processes with a gang's mark on these nodes.

    The task fails on a node that is dead, or has no Counterpoint and so no such process.
    """
    kill = ray.remote(num_cpus=0, max_retries=0)(kill_marked)
    places = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    kills = [kill.options(scheduling_strategy=place).remote(mark) for place in places]
    ray.wait(kills, num_returns=len(kills), timeout=_SWEEP_S)


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
            why=f"the tuner joins the cluster by its address; {_ADDRESSES}",
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
            why=f"the tuner joins the cluster by its address; {_ADDRESSES}",
            next=f"--ray-address ray://{parts.hostname}:{_CLIENT_PORT}",
        )
    return parts.hostname, parts.port or _CLIENT_PORT


def _node_probe() -> Callable[[], tuple[str, ...]]:
    """Return a function that Ray sends by value, since a node may lack the module."""

    def probe() -> tuple[str, ...]:
        import socket
        import sys

        import ray

        node = str(ray.get_runtime_context().get_node_id())
        facts = (node, socket.gethostname(), sys.executable)
        try:
            from counterpoint import __version__ as version
        except ImportError as failure:
            return *facts, "", str(failure)
        return *facts, version, ""

    return probe


def _refuse_other_versions(members: Sequence[RayMember]) -> None:
    """Require the tuner's version of Counterpoint in the Python of Ray's workers on every node."""
    member = next(
        (member for member in members if member.problem or member.version != __version__), None
    )
    if member is None:
        return
    package = f"counterpoint=={__version__}"
    has = (
        f"no Counterpoint ({member.problem})"
        if member.problem
        else f"Counterpoint {member.version}"
    )
    raise UsageError(
        f"{member.host} has {has} in {member.python}, but trials need {__version__} on every node",
        why="the runtime_env of a Ray job can install it: ray job submit --runtime-env-json"
        f""" '{{"pip": ["{package}"]}}' -- counterpoint tune ...""",
        next=f"pip install '{package}'",
    )


def summary_of(nodes: Sequence[NodeEntry]) -> str:
    """Describe nodes: `4 x (8 GPUs, 96 CPUs)`."""
    each = [
        ", ".join(f"{node['Resources'].get(name, 0):g} {name}s" for name in ("GPU", "CPU"))
        for node in nodes
    ]
    kinds = {kind: each.count(kind) for kind in sorted(each)}
    return "; ".join(f"{count} x ({kind})" for kind, count in kinds.items()) or "no node"


def usual_bundle(nodes: Sequence[NodeEntry], count: int) -> dict[str, float] | None:
    """Return all GPUs of a node, or all CPUs if there are no GPUs; None if nodes are missing.

    Nodes may differ: it is what the `count` largest have in common.
    """

    def common(resource: str) -> float:
        amounts = sorted((node["Resources"].get(resource, 0.0) for node in nodes), reverse=True)
        return amounts[count - 1] if len(amounts) >= count else 0.0

    if gpus := common("GPU"):
        return {"GPU": gpus, "CPU": 1.0}
    cpus = common("CPU")
    return {"CPU": cpus} if cpus else None


def to_avoid(
    nodes: Sequence[NodeEntry], bundle: Mapping[str, float], count: int, used: Sequence[str]
) -> list[str]:
    """Return as many used nodes as leave enough others, the most recently used first."""
    fit = [
        node["NodeID"]
        for node in nodes
        if all(node["Resources"].get(name, 0.0) >= amount for name, amount in bundle.items())
    ]
    known = [name for name in dict.fromkeys(reversed(used)) if name in fit]
    return known[: max(0, len(fit) - count)]
