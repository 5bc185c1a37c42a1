"""A cluster of Ray as its drivers see it: joined, asked for nodes and tasks, and left again."""

from __future__ import annotations

import inspect
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from counterpoint import __version__
from counterpoint.core.errors import UsageError
from counterpoint.tune.executors.executor import Ended, EndedKind
from counterpoint.tune.executors.marked import kill_marked

_LOOK_S: Final = 0.3
_REACH_S: Final = 10.0
_SWEEP_S: Final = 150.0
_CLIENT_PORT: Final = 10001
_ADDRESSES: Final = "it is ray://HOST:10001, or HOST:6379 on a node of the cluster itself"

NodeEntry = Mapping[str, Any]
"""A node as `ray.nodes()` describes it."""


class Member(NamedTuple):
    """A granted node: its ID and host, its Python, and the Counterpoint in it or why there is none.

    The problem is empty where Counterpoint could be imported.
    """

    node: str
    host: str
    python: str
    version: str
    problem: str


class Cluster:
    """This process as a driver of a cluster, from its first `join` to the last `leave`.

    Where the program around us has called `ray.init` already, its connection is used and kept.
    Ray leaves its types open.
    """

    def __init__(self) -> None:
        self._users = 0
        self._ours = False

    @property
    def ray(self) -> Any:  # noqa: ANN401
        """The module; it takes seconds to import."""
        try:
            import ray
        except ImportError:
            raise UsageError(
                "--executor ray: Ray is not installed here", next="pip install 'counterpoint[ray]'"
            ) from None
        return ray

    def join(self, address: str | None) -> None:
        if not self.ray.is_initialized():
            _connect(self.ray, address or os.environ.get("RAY_ADDRESS") or "auto")
            self._ours = True
        self._users += 1

    def leave(self) -> None:
        self._users -= 1
        if self._ours and not self._users:
            self.ray.shutdown()
            self._ours = False

    def alive(self) -> list[NodeEntry]:
        return [node for node in self.ray.nodes() if node["Alive"]]

    def summary(self) -> str:
        """What there is, and how much of it is free."""
        free = self.ray.available_resources()
        amounts = ", ".join(f"{free.get(name, 0):g} {name}s" for name in ("GPU", "CPU"))
        return f"{summary_of(self.alive())}; free now: {amounts}"

    def request(
        self, count: int, bundle: Mapping[str, float], avoid: Sequence[str] = ()
    ) -> Any | None:  # noqa: ANN401
        """Ask for a placement group on that many nodes; None where Ray can't avoid nodes."""
        make, options = self.ray.util.placement_group, dict[str, object]()
        if avoid:
            selectors = "bundle_label_selector"  # newer than the oldest Ray that is supported
            if selectors not in inspect.signature(make).parameters:
                return None
            options[selectors] = [{"ray.io/node-id": f"!in({','.join(avoid)})"}] * count
        strategy = "STRICT_SPREAD" if count > 1 else "STRICT_PACK"
        return make([dict(bundle)] * count, strategy=strategy, **options)

    def is_granted(self, group: Any, within_s: float, look: Callable[[], None]) -> bool:  # noqa: ANN401
        """Wait until a group has its nodes. Where it takes too long, or `look` raises, it ends."""
        until, granted, ready = time.monotonic() + within_s, False, group.ready()
        try:
            while not granted and time.monotonic() < until:
                look()
                granted = bool(self.ray.wait([ready], timeout=_LOOK_S)[0])
        finally:
            if not granted:
                self.give_back(group)
        return granted

    def give_back(self, group: Any) -> None:  # noqa: ANN401
        self.ray.util.remove_placement_group(group)

    def in_bundles(self, group: Any, remote: Any, count: int, **options: object) -> list[Any]:  # noqa: ANN401
        """Tasks or actors, one in each of the first bundles of a group."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        strategies = [PlacementGroupSchedulingStrategy(group, number) for number in range(count)]
        return [remote.options(scheduling_strategy=it, **options).remote() for it in strategies]

    def members(
        self,
        group: Any,  # noqa: ANN401
        count: int,
        within_s: float,
        look: Callable[[], None],
    ) -> list[Member]:
        """The nodes of a group in the order of its bundles; Ray installs a runtime_env there."""
        probe = self.ray.remote(num_cpus=0, max_retries=0)(_node_probe())
        found = self.answers(self.in_bundles(group, probe, count), within_s, look)
        return [Member(*facts) for facts in found]

    def answers(
        self, refs: list[Any], within_s: float, look: Callable[[], None] = lambda: None
    ) -> list[Any]:
        """The results of tasks; a UsageError where a node gives none."""
        until = time.monotonic() + within_s
        while self.ray.wait(refs, num_returns=len(refs), timeout=_LOOK_S)[1]:
            look()
            if time.monotonic() > until:
                raise UsageError(
                    f"the nodes of the cluster did not answer within {within_s:g} s",
                    next="ray status",
                )
        try:
            return self.ray.get(refs)
        except self.ray.exceptions.RayError as failure:
            raise UsageError(
                "a node of the cluster can't run what a trial needs",
                why=str(failure).strip(),
                next="ray status",
            ) from None

    def departed(self, members: Sequence[Member]) -> Ended | None:
        """How a gang ended whose nodes have left the cluster; None while all are there."""
        entries = {node["NodeID"]: node for node in self.ray.nodes()}
        gone = {it: entries.get(it.node, {}) for it in members}
        gone = {it: entry for it, entry in gone.items() if not entry.get("Alive")}
        if not gone:
            return None
        reasons = {str(entry.get("DeathReasonMessage") or "") for entry in gone.values()} - {""}
        why = f": {'; '.join(sorted(reasons))}" if reasons else ""
        kinds = " ".join(str(entry.get("DeathReason", "")) for entry in gone.values()) + why
        return Ended(
            kind=EndedKind.PREEMPTED if "preempt" in kinds.lower() else EndedKind.NODE_FAULT,
            detail=f"{', '.join(it.host for it in gone)} left the cluster{why}",
        )

    def end_marked(self, mark: str, nodes: Sequence[str]) -> None:
        """Kill all processes with a gang's mark on these nodes.

        The task fails on a node that is dead, or has no Counterpoint and so no such process.
        """
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        kill = self.ray.remote(num_cpus=0, max_retries=0)(kill_marked)
        places = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
        kills = [kill.options(scheduling_strategy=place).remote(mark) for place in places]
        self.ray.wait(kills, num_returns=len(kills), timeout=_SWEEP_S)


def _connect(ray: Any, address: str) -> None:  # noqa: ANN401
    """Join the cluster. Ray would try an address for minutes, and then end this process."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if address != "auto":
            socket.create_connection(_host_and_port(address), _REACH_S).close()
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as failure:
        raise UsageError(
            f"no cluster of Ray answers at {address}: {' '.join(str(failure).split())[:300]}",
            why=f"the tuner joins the cluster by its address; {_ADDRESSES}",
            next="ray status",
        ) from None
    finally:  # Ray replaces the handler by one that exits at once
        if threading.current_thread() is threading.main_thread():
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
    """A function that Ray sends by value, for a node may have no module to load it from."""

    def probe() -> tuple[str, ...]:
        import socket
        import sys

        import ray

        try:
            from counterpoint import __version__ as version

            problem = ""
        except ImportError as failure:
            version, problem = "", str(failure)
        node = str(ray.get_runtime_context().get_node_id())
        return node, socket.gethostname(), sys.executable, version, problem

    return probe


def refuse_other_versions(members: Sequence[Member]) -> None:
    """Every node needs the tuner's version of Counterpoint in the Python of Ray's workers."""
    other = next((it for it in members if it.problem or it.version != __version__), None)
    if other is None:
        return
    package = f"counterpoint=={__version__}"
    has = f"no Counterpoint ({other.problem})" if other.problem else f"Counterpoint {other.version}"
    raise UsageError(
        f"{other.host} has {has} in {other.python}, but trials need {__version__} on every node",
        why="the runtime_env of a Ray job can install it: ray job submit --runtime-env-json"
        f""" '{{"pip": ["{package}"]}}' -- counterpoint tune ...""",
        next=f"pip install '{package}'",
    )


def summary_of(nodes: Sequence[NodeEntry]) -> str:
    """Nodes in words: `4 x (8 GPUs, 96 CPUs)`."""
    each = [
        ", ".join(f"{node['Resources'].get(name, 0):g} {name}s" for name in ("GPU", "CPU"))
        for node in nodes
    ]
    kinds = {kind: each.count(kind) for kind in sorted(each)}
    return "; ".join(f"{count} x ({kind})" for kind, count in kinds.items()) or "no node"


def usual_bundle(nodes: Sequence[NodeEntry], count: int) -> dict[str, float] | None:
    """All GPUs of a node, or all CPUs where there are no GPUs; None where nodes are missing.

    Nodes may differ: it is as much as the `count` largest have in common.
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
    """As many used nodes as leave enough others, the most recently used first."""
    fit = [
        node["NodeID"]
        for node in nodes
        if all(node["Resources"].get(name, 0.0) >= amount for name, amount in bundle.items())
    ]
    known = [name for name in dict.fromkeys(reversed(used)) if name in fit]
    return known[: max(0, len(fit) - count)]
