"""The part of a gang on one node: an actor of Ray, and below it the node's ranks, each supervised.

All ranks of a node see all GPUs that Ray gave to the actor, as under Slurm: JAX gets the numbers of
a rank's own GPUs, and NCCL finds its neighbors.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from counterpoint.tune.executors.executor import TrialJob, rank_command
from counterpoint.tune.executors.local import MARK, kill_marked
from counterpoint.tune.executors.process_supervisor import supervised

_OF_LAUNCHERS: Final = ("SLURM_", "PMI_", "PMIX_", "OMPI_")
"""A launcher may have started Ray on this node: these variables are Ray's, not the trial's."""
_LOOK_S: Final = 0.1
_SEE_S: Final = 5.0
"""A network file system may take this long to show a new file."""
_PATIENCE_S: Final = 40.0
"""A supervisor ends its rank sooner than this, unless the node is very busy."""
_TAIL: Final = 1 << 14


@dataclass(kw_only=True)
class NodeActor:
    """The actor for one trial on one node. `stop` and `kill` are called while `run` is active.

    Args:
        job: The trial; its directory is absolute.
        mark: The mark of all processes of the gang.
        ranks: The numbers of this node's ranks.
        size: Number of ranks of the whole gang.
        settings: Variables of the tuner that count as settings.
        cwd: The tuner's working directory, which is the command's, too.
    """

    job: TrialJob
    mark: str
    ranks: range
    size: int
    settings: Mapping[str, str]
    cwd: Path

    def __post_init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._over = False

    def see(self, marker: Path) -> tuple[str, Path | None]:
        """Return a free HOST:PORT of this node, and which of the tuner's paths it lacks."""
        import ray

        util: Any = ray.util  # which leaves its types open
        until = time.monotonic() + _SEE_S
        while not marker.exists() and time.monotonic() < until:
            time.sleep(_LOOK_S)
        unseen = next((path for path in (marker, self.cwd) if not path.exists()), None)
        with socket.socket() as listener:
            listener.bind(("", 0))
            port = listener.getsockname()[1]
        return f"{util.get_node_ip_address()}:{port}", unseen

    def run(self, coordinator: str) -> tuple[int, str]:
        """Run the node's ranks to their end; return the first bad exit code and its output.

        Rank 0 listens at the coordinator's address.
        """
        with ExitStack() as stack:
            logs = [stack.enter_context(tempfile.TemporaryFile()) for _ in self.ranks]
            for place, log in enumerate(logs):
                with self._lock:
                    if not self._over:
                        self._processes.append(self._start(place, coordinator, log))
            while (first := self._first_failed()) is None and self._is_running():
                time.sleep(_LOOK_S)
            self.stop()
            while self._is_running():
                time.sleep(_LOOK_S)
            if first is None:
                return 0, ""
            code = self._processes[first].returncode
            return code if code >= 0 else 128 - code, _tail(logs[first])

    def stop(self) -> None:
        """Ask all ranks to end; their supervisors enforce it."""
        with self._lock:
            self._over = True
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End all ranks, and return when no process is left."""
        self.stop()
        until = time.monotonic() + _PATIENCE_S
        while self._is_running() and time.monotonic() < until:
            time.sleep(_LOOK_S)
        kill_marked(self.mark)

    def _is_running(self) -> bool:
        return any(process.poll() is None for process in self._processes)

    def _first_failed(self) -> int | None:
        codes = [process.poll() for process in self._processes]
        return next((place for place, code in enumerate(codes) if code), None)

    def _start(self, place: int, coordinator: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
        own = self._world(place, coordinator) if self.size > 1 else {}
        more = {**self.settings, **self.job.environment, MARK: self.mark, **own}
        environment = {**_inherited(), **more}
        # If the tuner dies, Ray kills the children of its actors: the outer supervisor, so that
        # the inner one ends the rank in order.
        command = supervised(supervised(rank_command(self.job), with_tuner=True))
        return subprocess.Popen(  # noqa: S603 - the user's own command
            command,
            cwd=self.cwd,
            env={name: text for name, text in environment.items() if text is not None},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )

    def _world(self, place: int, coordinator: str) -> dict[str, str]:
        """Return the rank's place in Open MPI's variables, which `counterpoint run` uses, too."""
        words = {
            "JAX_COORDINATOR_ADDRESS": coordinator,
            "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{coordinator}",
            "OMPI_COMM_WORLD_SIZE": str(self.size),
            "OMPI_COMM_WORLD_RANK": str(self.ranks[place]),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(place),
        }
        gpus = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
        share = len(gpus) // len(self.ranks)
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


def _tail(log: IO[bytes]) -> str:
    log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL))
    return log.read().decode("utf-8", errors="replace")
