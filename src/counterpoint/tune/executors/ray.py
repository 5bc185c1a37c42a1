"""Ray: trials as jobs of a cluster, each a gang in a placement group that is kept for several.

Nothing here joins the cluster: all goes through the Job API of its dashboard, so that the tuner
may sit anywhere from which that can be reached.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast

from counterpoint.core.errors import UsageError
from counterpoint.tune.executors.executor import Job, Shape
from counterpoint.tune.executors.rank_command import rank_command
from counterpoint.tune.executors.ray_gang import Place, RayGang, refused
from counterpoint.tune.executors.ray_jobs import HERE, Jobs
from counterpoint.tune.executors.ray_node import describe_directory
from counterpoint.tune.executors.ray_travel import job_environment, our_environment, settings_of
from counterpoint.tune.executors.ray_wire import DIRECTORY, Told, last

_OURS: Final = "counterpoint-"
_SHIPPED: Final = "-shipped"
_STAGE: Final = "counterpoint-ray-"


def _silent(what: str) -> None:
    del what


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """A cluster of Ray.

    Args:
        shape: Nodes, and processes on each.
        address: Of its dashboard; None for RAY_ADDRESS, or this machine.
        bundle: What to ask of each node; None for all its GPUs, or all its CPUs.
        ship: Whether the working directory travels; None for where nodes don't have the same one.
        shared: Whether nodes write where we read; None to try it out.
        wait_s: How long nodes are waited for.
        idle_s: After so long without a trial an allocation gives its nodes back by itself.
        say: Where to tell of the waiting.
        stopped: Whether to wait no longer.
    """

    shape: Shape = field(default_factory=Shape)
    address: str | None = None
    bundle: Mapping[str, float] | None = None
    ship: bool | None = None
    shared: bool | None = None
    wait_s: float = 600.0
    idle_s: float = 3600.0
    say: Callable[[str], None] = _silent
    stopped: Callable[[], bool] = lambda: False
    _used: list[str] = field(default_factory=list[str], compare=False)

    @property
    def name(self) -> str:
        return "ray"

    def open(self) -> RayAllocation:
        """Wait for nodes: others than before where the cluster has more of their kind."""
        jobs, identity = Jobs(self.where), f"{_OURS}{uuid.uuid4().hex[:12]}"
        asked = {
            "do": "hold",
            "name": identity,
            "nodes": self.shape.nodes,
            "bundle": dict(self.bundle) if self.bundle else None,
            "wait_s": self.wait_s,
            "idle_s": self.idle_s,
            "avoid": list(self._used),
        }
        try:
            with tempfile.TemporaryDirectory(prefix=_STAGE) as stage:
                environment = our_environment(Path(stage))
                jobs.submit(identity, asked, environment, {"allocation": identity})
            granted = jobs.wait_for(identity, ("granted", "refused"), self._hear, self.stopped)
            return self._granted(jobs, identity, granted)
        except BaseException:
            self._stop(jobs, identity)
            raise

    def sweep(self, identity: str) -> None:
        """Stop the jobs of a gang or an allocation, and kill what they left on any node."""
        if identity.startswith(_OURS):
            self._stop(Jobs(self.where), identity)

    def describe(self) -> str:
        shape = self.shape
        count = f"{shape.nodes} node{'' if shape.nodes == 1 else 's'}"
        per = f"{shape.ranks_per_node} on each" if shape.ranks_per_node else f"one per {shape.per}"
        return f"{self.name}: {count} of {self.where}, processes: {per}"

    @property
    def where(self) -> str:
        """The cluster's address."""
        told = (os.environ.get(it) for it in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS"))
        return self.address or next(filter(None, told), HERE)

    def _hear(self, news: Told) -> None:
        self.say(
            f"waiting for {news['asked']}: the cluster has {news['has']}; free now: {news['free']}"
        )

    def _granted(self, jobs: Jobs, identity: str, said: Told | None) -> RayAllocation:
        if said is None:
            raise refused(identity, jobs.state(identity)[1], jobs.log(identity))
        if said["kind"] == "refused":
            raise UsageError(
                f"the cluster at {jobs.address} gives no such nodes: {said['why']}",
                why=f"asked for {said.get('asked') or said['why']}; it has {said['has']}"
                + (f", free now: {said['free']}" if "free" in said else ""),
                next="ask for what there is, or wait until others are done",
            )
        nodes = cast("Sequence[Mapping[str, object]]", said["nodes"])
        if old := next((it for it in nodes if it["old"]), None):
            raise UsageError(
                f"{old['host']} runs Ray with Python {old['python']}",
                why="counterpoint needs Python 3.11 or newer where trials run",
                next="start Ray with a newer Python there",
            )
        self._used.extend(str(it["id"]) for it in nodes)
        bundle = cast("Mapping[str, float]", said["bundle"])
        return RayAllocation(self, jobs, identity, nodes, int(bundle.get("GPU", 0)))

    def _stop(self, jobs: Jobs, identity: str) -> None:
        """Trials first: with the allocation Ray would take their processes from under them."""
        names = jobs.of(identity)
        trials = [it for it in names if it != identity or "trial" in jobs.metadata(it)]
        jobs.stop(trials)
        clean(jobs, trials)
        jobs.stop([it for it in names if it not in trials])


class RayAllocation:
    """A job that holds a placement group. `gpus` is how many there are on each node."""

    def __init__(
        self,
        executor: Ray,
        jobs: Jobs,
        identity: str,
        nodes: Sequence[Mapping[str, object]],
        gpus: int,
    ) -> None:
        self._executor = executor
        self._jobs = jobs
        self._identity = identity
        self._nodes = nodes
        self._gpus = gpus
        self._modules = jobs.modules(identity)
        self._elsewhere: set[Path] = set()

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def nodes(self) -> tuple[str, ...]:
        """Host names; with a piece of Ray's number, where several nodes are on one host."""
        hosts = [str(it["host"]) for it in self._nodes]
        return tuple(
            host if hosts.count(host) == 1 else f"{host}/{str(it['id'])[:8]}"
            for host, it in zip(hosts, self._nodes, strict=True)
        )

    def start(self, job: Job) -> RayGang:
        ranks = self._ranks_per_node(job.shape)
        over, state = self._jobs.state(self._identity)
        if over:
            raise UsageError(
                "the allocation on the cluster is gone",
                why=state,
                next="give the same command again",
            )
        parent = job.directory.absolute().parent
        parent.mkdir(parents=True, exist_ok=True)
        name = f"{_OURS}{uuid.uuid4().hex[:12]}"
        marker = parent / f".{name}.here"
        marker.write_text(name, encoding="utf-8")
        command = rank_command(replace(job, directory=Path(DIRECTORY)))
        asked: dict[str, object] = {
            "do": "trial",
            "gang": name,
            "allocation": self._identity,
            "nodes": [it["id"] for it in self._nodes][: job.shape.nodes],
            "ranks_per_node": ranks,
            "command": command[command.index("run") :],
            "environment": {**settings_of(os.environ), **job.environment},
            "directory": str(job.directory.absolute()),
            "marker": [str(marker), name],
            "shared": self._executor.shared,
            "wait_s": self._executor.wait_s,
        }
        return self._submit(name, asked, job, Path.cwd(), marker)

    def close(self) -> None:
        self._executor.sweep(self._identity)

    def _submit(
        self, name: str, asked: Mapping[str, object], job: Job, cwd: Path, marker: Path
    ) -> RayGang:
        def send(job_name: str, *, ship: bool) -> str:
            where = None if ship else describe_directory(str(cwd))
            study = job.directory.absolute().parent.parent
            self._jobs.submit(
                job_name,
                {**asked, "cwd": where},
                job_environment(self._modules, cwd if ship else None, study),
                {"allocation": self._identity, "gang": name, "trial": job.name},
            )
            return job_name

        def ship(said: Told) -> str:
            hosts = ", ".join(cast("list[str]", said["nodes"]))
            if self._executor.ship is False:
                raise UsageError(
                    f"{cwd} is not the same directory on {hosts}",
                    why="ship=False keeps it from being sent there",
                    next="mount it on all nodes, or let it be sent",
                )
            self._elsewhere.add(cwd)
            return send(f"{name}{_SHIPPED}", ship=True)

        send(name, ship=self._executor.ship or cwd in self._elsewhere)
        place = Place(self._identity, job.directory.absolute(), marker)
        return RayGang(self._jobs, name, place, ship=ship, clean=clean)

    def _ranks_per_node(self, shape: Shape) -> int:
        if shape.nodes > len(self._nodes):
            raise UsageError(
                f"{shape.nodes} nodes, but the allocation has {len(self._nodes)}",
                next=f"--nodes {len(self._nodes)}",
            )
        if shape.ranks_per_node is not None:
            return shape.ranks_per_node
        if shape.per == "gpu" and not self._gpus:
            raise UsageError(
                "a process per GPU, but these nodes of the cluster have none that Ray knows of",
                next="--ranks-per-node 1",
            )
        return self._gpus if shape.per == "gpu" else 1


def clean(jobs: Jobs, names: Sequence[str]) -> None:
    """Kill what drivers left that were killed before they could see to it."""
    left = [name for name in names if _left_something(jobs, name)]
    if not left:
        return
    gangs = [name.removesuffix(_SHIPPED) for name in left]
    sweep = f"{_OURS}sweep-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory(prefix=_STAGE) as stage:
        environment = our_environment(Path(stage))
        jobs.submit(sweep, {"do": "sweep", "gangs": gangs}, environment, {"sweeps": gangs[0]})
    jobs.wait_for(sweep, ("swept",))


def _left_something(jobs: Jobs, name: str) -> bool:
    log = jobs.log(name)
    return last(log, "starting") is not None and last(log, "gone") is None
