"""One trial on a cluster of Ray: a gang of actors in the allocation's placement group.

This is the job's driver. It starts the ranks, ends all when one fails, brings together what they
left, and says how it ended. What it can't say itself, since somebody killed it, the tuner sees.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast

from counterpoint.tune.executors.collect import merge
from counterpoint.tune.executors.ray_api import in_bundle, ray_api
from counterpoint.tune.executors.ray_node import Assignment, Node
from counterpoint.tune.executors.ray_wire import tell

_TICK_S: Final = 0.25
_ANSWER_S: Final = 60.0
_FETCH_S: Final = 600.0
_DEATH_S: Final = 40.0
"""So long Ray may take to notice that a node, and not a process alone, has died."""

Json = Mapping[str, Any]


class _Stopped(BaseException):
    """Ray was told to stop this job."""


class _NodeLost(Exception):
    """A part of the gang does not answer any more."""

    def __init__(self, place: int, preempted: bool, message: str) -> None:
        super().__init__(message)
        self.place = place
        self.preempted = preempted


@dataclass(slots=True)
class Parts:
    """The actors, in the order of the allocation's nodes, and which ranks each has."""

    actors: list[Any]
    nodes: list[str]
    ranks: list[list[int]]
    lost: set[int] = field(default_factory=set[int])

    def ask(self, method: str, *words: object, within_s: float = _ANSWER_S) -> list[Any]:
        """The answers of all; a short wait at a time, so that a signal is heard."""
        return [self.ask_one(place, method, *words, within_s=within_s) for place in self.there]

    @property
    def there(self) -> list[int]:
        return [place for place in range(len(self.actors)) if place not in self.lost]

    def ask_one(self, place: int, method: str, *words: object, within_s: float = _ANSWER_S) -> Any:  # noqa: ANN401
        ray = ray_api()
        answer = getattr(self.actors[place], method).remote(*words)
        until = time.monotonic() + within_s
        while True:
            try:
                return ray.get(answer, timeout=0.5)
            except ray.exceptions.GetTimeoutError:
                if time.monotonic() > until:
                    raise _NodeLost(place, False, f"no answer within {within_s:g} s") from None
            except ray.exceptions.RayActorError as died:
                preempted = bool(getattr(died, "preempted", False))
                raise _NodeLost(place, preempted, str(died)) from None


def trial(asked: Json, place: Path) -> None:
    """Run it, and say how it ended."""
    parts: Parts | None = None
    shared = True
    ended: dict[str, object] = {"how": "killed", "code": None, "detail": ""}
    try:
        signal.signal(signal.SIGTERM, _stop)
        found = _parts(asked)
        if isinstance(found, dict):
            tell("ended", **found)
            return
        parts = found
        seen = parts.ask("see", asked["marker"], asked["cwd"], within_s=float(asked["wait_s"]))
        if asked["cwd"] is not None and not all(it["same_cwd"] for it in seen):
            tell("ship", nodes=[it["host"] for it in seen if not it["same_cwd"]])
            return
        shared = all(it["shared"] for it in seen) if asked["shared"] is None else asked["shared"]
        tell("starting")  # from here on something may be left, should this process be killed
        _start(asked, parts, seen, shared=shared)
        tell("started")
        ended = _watch(parts, shared=shared)
    except _Stopped:
        pass
    except _NodeLost as lost:
        if parts is None:
            raise
        ended = _fault(parts, lost)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if parts is not None and _ask_all(parts, "kill"):
            tell("gone")  # else the tuner has it looked after
    packed: dict[str, object] = {}
    if parts is not None:
        packed = {} if shared else _collect(parts, place)
        _ask_all(parts, "clear")
    tell("ended", **ended, **packed)


def _stop(number: int, frame: FrameType | None) -> None:
    """Ray's word to end; it is heard once."""
    del frame
    signal.signal(number, signal.SIG_IGN)
    raise _Stopped


def _parts(asked: Json) -> Parts | dict[str, object]:
    """The actors; or, where the allocation is not what it was, how the trial ended."""
    ray = ray_api()
    nodes, per_node = cast("list[str]", asked["nodes"]), int(asked["ranks_per_node"])
    try:
        group = ray.util.get_placement_group(asked["allocation"])
    except ValueError:
        return {"how": "lost", "code": None, "detail": "its allocation was given back"}
    now = ray.util.placement_group_table(group)["bundles_to_node_id"]
    moved = [node for place, node in enumerate(nodes) if now.get(place) != node]
    if moved:
        return _gone(moved)
    bundle = dict(group.bundle_specs[0])
    wanted = {"num_cpus": bundle.pop("CPU", 0), "num_gpus": bundle.pop("GPU", 0)}
    actor = ray.remote(Node)
    actors = [
        actor.options(
            **wanted,
            resources=bundle,
            max_concurrency=4,
            scheduling_strategy=in_bundle(group, place),
        ).remote()
        for place in range(len(nodes))
    ]
    ranks = [list(range(place * per_node, (place + 1) * per_node)) for place in range(len(nodes))]
    return Parts(actors, nodes, ranks)


def _start(asked: Json, parts: Parts, seen: Sequence[Json], *, shared: bool) -> None:
    for place in parts.there:
        assignment = Assignment(
            gang=asked["gang"],
            command=asked["command"],
            directory=asked["directory"] if shared else None,
            ranks=parts.ranks[place],
            size=sum(map(len, parts.ranks)),
            coordinator=f"{seen[0]['address']}:{seen[0]['port']}",
            environment=asked["environment"],
            cwd=asked["cwd"]["path"] if asked["cwd"] else None,
        )
        parts.ask_one(place, "start", assignment)


def _watch(parts: Parts, *, shared: bool) -> dict[str, object]:
    """Wait for all ranks. The first that fails takes the others along, and its code counts."""
    codes: dict[int, int] = {}
    failed: tuple[int, int] | None = None
    count = sum(map(len, parts.ranks))
    while len(codes) < count:
        time.sleep(_TICK_S)
        for place, ended in zip(parts.there, parts.ask("look"), strict=True):
            for rank, code in cast("Mapping[int, int]", ended).items():
                if rank in codes:
                    continue
                codes[rank] = code
                if place and not shared:
                    _pass_on(parts, place, rank)
                if code and failed is None:
                    failed = (rank, code)
                    parts.ask("stop")
    words = [str(it) for it in parts.ask("words") if it] if failed else []
    detail = "\n".join(dict.fromkeys(words))
    return {"how": "exited", "code": failed[1] if failed else 0, "detail": detail}


def _pass_on(parts: Parts, place: int, rank: int) -> None:
    """Rank 0 waits for the others, to tell of the whole run, and sees its own node's disk only."""
    manifest = parts.ask_one(place, "manifest", rank)
    if manifest is not None:
        parts.ask_one(0, "hear", rank, manifest)


def _fault(parts: Parts, lost: _NodeLost) -> dict[str, object]:
    """Was it the node, or a process of ours alone? Ray finds out a little later."""
    ray = ray_api()
    parts.lost.add(lost.place)
    node = parts.nodes[lost.place]
    until = time.monotonic() + _DEATH_S
    while not lost.preempted and time.monotonic() < until:
        about = next((it for it in cast("list[Json]", ray.nodes()) if it["NodeID"] == node), None)
        if about is None or not about["Alive"]:
            return _gone([node])
        time.sleep(_TICK_S)
    how = "preempted" if lost.preempted else "lost"
    return {"how": how, "code": None, "detail": str(lost).strip()}


def _gone(nodes: Iterable[str]) -> dict[str, object]:
    """Nodes of the allocation that it has no more; why, as far as Ray was told."""
    ray = ray_api()
    lost = [it for it in cast("list[Json]", ray.nodes()) if it["NodeID"] in set(nodes)]
    reasons = {str(it.get("DeathReasonMessage") or "") for it in lost} - {""}
    hosts = ", ".join(str(it["NodeManagerHostname"]) for it in lost) or "a node"
    why = f": {'; '.join(sorted(reasons))}" if reasons else ""
    kinds = " ".join(str(it.get("DeathReason", "")) for it in lost) + why
    how = "preempted" if "preempt" in kinds.lower() else "node fault"
    return {"how": how, "code": None, "detail": f"{hosts} left the cluster{why}"}


def _ask_all(parts: Parts, method: str) -> bool:
    """Ask all that are not known to be lost; whether they did it."""
    asked = parts.there
    for place in asked:
        try:
            parts.ask_one(place, method)
        except _NodeLost:
            parts.lost.add(place)
    return asked == parts.there


def _collect(parts: Parts, place: Path) -> dict[str, object]:
    """Bring together what the ranks left, for the tuner to fetch."""
    ray = ray_api()
    place.mkdir(parents=True, exist_ok=True)
    for old in place.glob("*.zip"):  # the tuner has fetched it, or never will
        old.unlink(missing_ok=True)
    archives: list[Path] = []
    for number in parts.there:
        try:
            pieces = cast("int", parts.ask_one(number, "pack", within_s=_FETCH_S))
            archive = place / f"node-{number}.zip"
            with archive.open("wb") as file:
                for piece in range(pieces):
                    file.write(cast("bytes", parts.ask_one(number, "piece", piece)))
        except _NodeLost:
            continue
        archives.append(archive)  # whole, or not at all
    merged = place / "run.zip"
    digest = merge(archives, merged)
    for archive in archives:
        archive.unlink()
    return {
        "file": merged.name,
        "bytes": merged.stat().st_size,
        "sha256": digest,
        "node": ray.get_runtime_context().get_node_id(),
    }
