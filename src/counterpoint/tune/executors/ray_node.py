"""The part of a gang on one node: an actor of Ray, and below it the node's ranks, each supervised.

All ranks of a node see all GPUs that Ray gave to the actor, as under Slurm: JAX gets the numbers of
a rank's own GPUs, and NCCL finds its neighbors.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import ray

from counterpoint import __version__
from counterpoint.tune.executors.executor import TrialJob, rank_command
from counterpoint.tune.executors.exit_report import launcher_log
from counterpoint.tune.executors.local import MARK, kill_marked
from counterpoint.tune.executors.process_supervisor import (
    EndingTimes,
    start_supervised,
    supervised,
)

_ray: Any = ray  # most of its functions have no types
BUSY_S: Final = 30.0
"""A very busy node may need this much longer than it should to end its ranks."""
_OF_LAUNCHERS: Final = ("SLURM_", "PMI_", "PMIX_", "OMPI_")
"""A launcher may have started Ray on this node: these variables are Ray's, not the trial's."""
_LOOK_S: Final = 0.1
_SEE_S: Final = 5.0
"""A network file system may take this long to show a new file."""


class RayMember(NamedTuple):
    """A node of the cluster: its ID and host, and the Counterpoint of its Python."""

    node: str
    host: str
    version: str


def this_node() -> RayMember:
    """Return the node on which it is called; fails on nodes that lack Counterpoint."""
    return RayMember(_ray.get_runtime_context().get_node_id(), socket.gethostname(), __version__)


class NodeActor:
    """Runs ranks of a gang of `size` ranks; `stop` and `kill` are called while `run` is active.

    The job's directory is absolute, and its environment has the gang's mark.
    """

    def __init__(
        self, job: TrialJob, ranks: range, size: int, cwd: Path, ending: EndingTimes
    ) -> None:
        self._job = job
        self._ranks = ranks
        self._size = size
        self._cwd = cwd
        self._ending = ending
        self._began = self._over = False
        self._done = threading.Event()

    def see(self, *paths: Path) -> tuple[str, Path | None]:
        """Return a free HOST:PORT of this node, and which of these paths it lacks."""
        until = time.monotonic() + _SEE_S
        while (lacks := [path for path in paths if not path.exists()]) and time.monotonic() < until:
            time.sleep(_LOOK_S)
        with socket.socket() as listener:
            listener.bind(("", 0))
            port = listener.getsockname()[1]
        return f"{_ray.util.get_node_ip_address()}:{port}", next(iter(lacks), None)

    def run(self, coordinator: str) -> int:
        """Run the ranks to their end; return the exit code of the first that failed, or 0.

        Rank 0 listens at the coordinator's address.
        """
        self._began = True
        try:
            places = () if self._over else range(len(self._ranks))
            code = self._watch([self._start(place, coordinator) for place in places])
        finally:
            self._done.set()
        return code if code >= 0 else 128 - code

    def _watch(self, processes: list[subprocess.Popen[bytes]]) -> int:
        code = 0
        while True:
            codes = [process.poll() for process in processes]
            code = code or next(filter(None, codes), 0)
            if None not in codes:
                return code
            if code or self._over:
                for process in processes:
                    process.terminate()  # their supervisors count that once
            time.sleep(_LOOK_S)

    def stop(self) -> None:
        """Ask all ranks to end; their supervisors enforce it."""
        self._over = True

    def kill(self) -> None:
        """End all ranks, and return when no process is left."""
        self._over = True
        if self._began:
            self._done.wait(self._ending.total_s() + BUSY_S)
        kill_marked(str(self._job.environment[MARK]))

    def _start(self, place: int, coordinator: str) -> subprocess.Popen[bytes]:
        world = self._world(place, coordinator) if self._size > 1 else {}
        variables = {**_inherited(), **self._job.environment, **world}
        environment = {name: text for name, text in variables.items() if text is not None}
        # If the tuner dies, Ray kills the children of its actors: the outer supervisor, so that
        # the inner one ends the rank in order.
        inner = supervised(rank_command(self._job), with_tuner=True, times=self._ending)
        with launcher_log(self._job.directory).open("ab") as output:
            return start_supervised(
                supervised(inner, times=self._ending), environment, output, cwd=self._cwd
            )

    def _world(self, place: int, coordinator: str) -> dict[str, str]:
        """Return the rank's place in Open MPI's variables, which `counterpoint run` uses, too."""
        words = {
            "JAX_COORDINATOR_ADDRESS": coordinator,
            "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{coordinator}",
            "OMPI_COMM_WORLD_SIZE": str(self._size),
            "OMPI_COMM_WORLD_RANK": str(self._ranks[place]),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(place),
        }
        gpus = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
        share = len(gpus) // len(self._ranks)
        if share > 1:  # otherwise JAX takes the one with the rank's local number
            mine = range(place * share, (place + 1) * share)
            words["JAX_LOCAL_DEVICE_IDS"] = ",".join(map(str, mine))
        return words


def _inherited() -> dict[str, str]:
    """Return the variables with which Ray's process began: later Ray sets OMP_NUM_THREADS, too."""
    lines = Path("/proc/self/environ").read_bytes().split(b"\0")
    pairs = (os.fsdecode(line).partition("=") for line in lines if line)
    found = {name: text for name, _, text in pairs if not name.startswith(_OF_LAUNCHERS)}
    if "CUDA_VISIBLE_DEVICES" in os.environ:  # Ray sets here which GPUs are the actor's
        found["CUDA_VISIBLE_DEVICES"] = os.environ["CUDA_VISIBLE_DEVICES"]
    return found
