"""What holds an allocation on a cluster of Ray: a job that has a placement group, and waits.

The group is not detached: whatever ends this job gives the nodes back, and it ends by itself when
nothing has run on them for a while, as when the tuner was killed and nobody went on.
"""

from __future__ import annotations

import inspect
import platform
import shutil
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from counterpoint.tune.executors.ray_api import in_bundle, ray_api
from counterpoint.tune.executors.ray_wire import tell

_TICK_S: Final = 1.0
_SAY_S: Final = 10.0
_ELSEWHERE_S: Final = 5.0
"""Other nodes than those of earlier allocations are waited for no longer than this."""
_OLDEST: Final = (3, 11)

Json = Mapping[str, Any]


def hold(asked: Json, place: Path) -> None:
    """Get the nodes, say which, and keep them until this process is ended."""
    ray = ray_api()
    bundle, why = bundle_of(alive_nodes(), asked["nodes"], asked["bundle"])
    if bundle is None:
        tell("refused", why=why, has=cluster_has(alive_nodes()))
        return
    group = _group(asked, bundle)
    if group is None:
        return
    try:
        tell("granted", bundle=bundle, nodes=_facts(group, asked["nodes"]))
        _stay(ray, group, float(asked["idle_s"]))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def alive_nodes() -> list[Json]:
    """The nodes of the cluster."""
    ray = ray_api()
    return [it for it in cast("list[Json]", ray.nodes()) if it["Alive"]]


def bundle_of(
    nodes: Sequence[Json], count: int, asked: Mapping[str, float] | None
) -> tuple[dict[str, float] | None, str]:
    """What to ask of each node: all its GPUs, or where there are none all its CPUs.

    Nodes may differ: it is as much as the `count` largest have in common.
    """
    if asked:
        return dict(asked), ""

    def common(resource: str) -> float:
        amounts = sorted((it["Resources"].get(resource, 0.0) for it in nodes), reverse=True)
        return amounts[count - 1] if len(amounts) >= count else 0.0

    if gpus := common("GPU"):
        return {"GPU": gpus, "CPU": 1.0}, ""
    if cpus := common("CPU"):
        return {"CPU": cpus}, ""
    return None, f"{count} node{'s' * (count > 1)} with a GPU or a CPU each"


def cluster_has(nodes: Sequence[Json]) -> str:
    """The cluster in words, node by node."""
    each = [
        ", ".join(f"{it['Resources'].get(name, 0):g} {name}s" for name in ("GPU", "CPU"))
        for it in nodes
    ]
    kinds = {it: each.count(it) for it in sorted(each)}
    return "; ".join(f"{count} x ({kind})" for kind, count in kinds.items()) or "no node"


def _group(asked: Json, bundle: dict[str, float]) -> Any | None:  # noqa: ANN401
    """The placement group once it is granted; None where that took too long."""
    count, until = int(asked["nodes"]), time.monotonic() + float(asked["wait_s"])
    avoid = to_avoid(alive_nodes(), bundle, count, asked["avoid"])
    if avoid and _can_avoid():
        group = _asked_for(asked["name"], bundle, count, avoid)
        if group.wait(_ELSEWHERE_S):
            return group
        _remove(group)
    group = _asked_for(asked["name"], bundle, count, ())
    while not group.wait(_SAY_S):
        nodes = alive_nodes()
        about = {"asked": f"{count} x {bundle}", "has": cluster_has(nodes), "free": _free()}
        if time.monotonic() > until:
            tell("refused", why=f"not granted within {asked['wait_s']:g} s", **about)
            _remove(group)
            return None
        tell("waiting", **about)
    return group


def to_avoid(
    nodes: Sequence[Json], bundle: Mapping[str, float], count: int, used: Sequence[str]
) -> list[str]:
    """As many of those used before as leave enough others; those used last are avoided first."""
    fit = [
        it["NodeID"]
        for it in nodes
        if all(it["Resources"].get(name, 0.0) >= amount for name, amount in bundle.items())
    ]
    known = [it for it in dict.fromkeys(reversed(used)) if it in fit]
    return known[: max(0, len(fit) - count)]


def _can_avoid() -> bool:
    return "bundle_label_selector" in inspect.signature(ray_api().util.placement_group).parameters


def _asked_for(name: str, bundle: dict[str, float], count: int, avoid: Sequence[str]) -> Any:  # noqa: ANN401
    selector = {"ray.io/node-id": f"!in({','.join(avoid)})"}
    more: dict[str, Any] = {"bundle_label_selector": [selector] * count} if avoid else {}
    strategy = "STRICT_SPREAD" if count > 1 else "STRICT_PACK"
    return ray_api().util.placement_group([bundle] * count, strategy=strategy, name=name, **more)


def _remove(group: Any) -> None:  # noqa: ANN401
    ray_api().util.remove_placement_group(group)
    time.sleep(_TICK_S)  # its name is free again a little later


def _free() -> str:
    ray = ray_api()
    free = cast("Mapping[str, float]", ray.available_resources())
    return ", ".join(f"{free.get(name, 0):g} {name}s" for name in ("GPU", "CPU"))


def _facts(group: Any, count: int) -> list[Json]:  # noqa: ANN401
    """The nodes in the order of their bundles. To ask them brings our package there, too."""
    ray = ray_api()
    asks = ray.remote(num_cpus=0)(_fact)
    return ray.get(
        [
            asks.options(scheduling_strategy=in_bundle(group, place)).remote()
            for place in range(count)
        ]
    )


def _fact() -> Json:
    ray = ray_api()
    return {
        "id": ray.get_runtime_context().get_node_id(),
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "old": sys.version_info < _OLDEST,
    }


def _stay(ray: Any, group: Any, idle_s: float) -> None:  # noqa: ANN401
    """Wait to be ended; nobody has to, where nothing runs here for long."""
    name = next(
        f"{it}_group_{group.id.hex()}" for it in ("GPU", "CPU") if it in group.bundle_specs[0]
    )
    used = time.monotonic()
    while time.monotonic() - used < idle_s:
        time.sleep(_TICK_S)
        free, whole = (
            cast("Mapping[str, float]", it()).get(name, 0.0)
            for it in (ray.available_resources, ray.cluster_resources)
        )
        if free < whole:
            used = time.monotonic()
    tell("idle", seconds=idle_s)
