"""The part of a gang on one node: its ranks, each under a keeper, below a worker process of Ray.

All ranks of a node see all GPUs that Ray gave to its bundle, as under Slurm: JAX is told which of
them are a rank's, and NCCL finds its neighbours.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import counterpoint
from counterpoint.runs import layout
from counterpoint.tune.executors.collect import CHUNK, pack
from counterpoint.tune.executors.exit_report import last_words
from counterpoint.tune.executors.local import MARK, kill_marked
from counterpoint.tune.executors.process_supervisor import supervised
from counterpoint.tune.executors.ray_api import ray_api
from counterpoint.tune.executors.ray_wire import DIRECTORY, NEEDS, PATIENCE

_OF_LAUNCHERS: Final = ("SLURM_", "PMI_", "PMIX_", "OMPI_")
"""Whoever started Ray on this node may be a launcher itself: of Ray, not of the trial."""
_PATIENCE_S: Final = 40.0
_START: Final = (
    "import sys; sys.path[:0] = {paths!r}; from counterpoint.cli.app import main; sys.exit(main())"
)
"""Our modules are not in PYTHONPATH: the user's program would find them there, too."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one node is to do.

    Args:
        gang: The mark of all its processes.
        command: What `counterpoint run` is given.
        directory: Where the Run is made; None for a place of the node's own.
        ranks: The numbers of this node's ranks.
        size: How many there are in all.
        coordinator: Where rank 0 listens, as host:port.
        environment: Variables on top of what the node has; None unsets one.
        cwd: Where the command runs; None for where Ray has unpacked what was shipped.
    """

    gang: str
    command: Sequence[str]
    directory: str | None
    ranks: Sequence[int]
    size: int
    coordinator: str
    environment: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    cwd: str | None = None


class Node:
    """An actor of Ray: it takes the whole bundle, and so the node."""

    def __init__(self) -> None:
        self._ranks: dict[int, subprocess.Popen[bytes]] = {}
        self._directory = self._own = Path(
            tempfile.gettempdir(), f"counterpoint-ray-{os.getpid()}-{time.time_ns()}"
        )
        self._gang = ""
        self._lock = threading.Lock()
        self._over = False

    def see(self, marker: tuple[str, str], cwd: Mapping[str, object] | None) -> dict[str, object]:
        """What the driver has to know before it starts anything."""
        return {
            "address": _address(),
            "host": socket.gethostname(),
            "port": _free_port(),
            "shared": _holds(*marker),
            "same_cwd": cwd is not None and cwd == describe_directory(str(cwd["path"])),
        }

    def start(self, told: Assignment) -> None:
        """Start the ranks; what they inherit is what Ray's processes here do, without Ray's own."""
        self._gang = told.gang
        self._own.mkdir(parents=True)
        self._directory = Path(told.directory) if told.directory else self._own / "run"
        for place, rank in enumerate(told.ranks):
            with self._lock:
                if self._over:  # it was killed while it came up
                    return
                self._ranks[rank] = self._start_rank(told, rank, place)

    def _start_rank(self, told: Assignment, rank: int, place: int) -> subprocess.Popen[bytes]:
        clear = ("rm", "-rf", str(self._own))
        with self._log(rank).open("wb") as output:
            return subprocess.Popen(  # noqa: S603
                supervised(self._command(told.command), with_tuner=True, then=clear),
                cwd=told.cwd,
                env=_environment(told, rank, place),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                start_new_session=True,
            )

    def look(self) -> dict[int, int]:
        """The ranks that have ended, with their exit codes as a shell knows them."""
        codes = {rank: process.poll() for rank, process in self._ranks.items()}
        return {
            rank: code if code >= 0 else 128 - code
            for rank, code in codes.items()
            if code is not None
        }

    def stop(self) -> None:
        """Ask all ranks to end; their keepers see to it that they do."""
        for process in self._ranks.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End all ranks, and return when nothing is left. Ranks that come up now won't."""
        with self._lock:
            self._over = True
        self.stop()
        until = time.monotonic() + _PATIENCE_S
        while any(it.poll() is None for it in self._ranks.values()) and time.monotonic() < until:
            time.sleep(0.05)
        if self._gang:
            kill_marked(self._gang)
        for process in self._ranks.values():
            process.wait()

    def manifest(self, rank: int) -> bytes | None:
        """What says how a rank ended."""
        try:
            place = layout.rank_directory(self._directory, rank)
            return (place / layout.RANK_MANIFEST).read_bytes()
        except OSError:
            return None

    def hear(self, rank: int, manifest: bytes) -> None:
        """Learn how a rank elsewhere ended: rank 0 waits for all, to tell of the whole run."""
        place = layout.rank_directory(self._directory, rank)
        place.mkdir(parents=True, exist_ok=True)
        part = place / f".{layout.RANK_MANIFEST}.part"
        part.write_bytes(manifest)
        part.replace(place / layout.RANK_MANIFEST)

    def words(self) -> str:
        """What launching the ranks gave to say, as for a program that is not there."""
        return "\n".join(filter(None, (last_words(self._log(rank)) for rank in self._ranks)))

    def pack(self) -> int:
        """Make an archive of what the ranks left, and say how many pieces it has."""
        archive = self._own / "run.zip"
        self._own.mkdir(parents=True, exist_ok=True)
        pack(self._directory, self._ranks, archive, manifest=True)
        return -(-archive.stat().st_size // CHUNK)

    def piece(self, number: int) -> bytes:
        """A piece of the archive."""
        with (self._own / "run.zip").open("rb") as file:
            file.seek(number * CHUNK)
            return file.read(CHUNK)

    def clear(self) -> None:
        """Leave nothing on the node's disk."""
        shutil.rmtree(self._own, ignore_errors=True)

    def _log(self, rank: int) -> Path:
        return self._own / f"launcher-{rank}.log"

    def _command(self, command: Sequence[str]) -> tuple[str, ...]:
        start = _START.format(paths=our_paths())
        given = [
            f"--out={self._directory}" if word == f"--out={DIRECTORY}" else word for word in command
        ]
        return (sys.executable, "-P", "-c", start, *given)


def our_paths() -> list[str]:
    """Where our package is on this node, and the few that it needs."""
    paths = [str(Path(counterpoint.__file__).parent.parent)]
    needs = importlib.util.find_spec(NEEDS)
    return [*paths, *(needs.submodule_search_locations or () if needs else ())]


def describe_directory(path: str) -> dict[str, object] | None:
    """Enough of a directory to tell it from another one of its name on another machine."""
    try:
        about = Path(path).stat()
        files = [it for it in os.scandir(path) if it.is_file(follow_symlinks=False)]
        sizes = sorted([it.name, it.stat().st_size, it.stat().st_mtime_ns] for it in files)
    except OSError:
        return None
    return {"path": path, "inode": about.st_ino, "files": sizes}


def _environment(told: Assignment, rank: int, place: int) -> dict[str, str]:
    variables = _inherited()
    if "CUDA_VISIBLE_DEVICES" in os.environ:  # Ray's word on which GPUs are ours
        variables["CUDA_VISIBLE_DEVICES"] = os.environ["CUDA_VISIBLE_DEVICES"]
    both = {**variables, **told.environment, MARK: told.gang}
    if told.size > 1:
        both |= _world(told, rank, place)
    return {name: text for name, text in both.items() if text is not None}


def _inherited() -> dict[str, str]:
    """The environment as Ray's process had it when it began: later it sets OMP_NUM_THREADS."""
    lines = Path("/proc/self/environ").read_bytes().split(b"\0")
    pairs = (os.fsdecode(line).partition("=") for line in lines if line)
    found = {name: text for name, _, text in pairs if not name.startswith(_OF_LAUNCHERS)}
    search = found.pop("PYTHONPATH", "").split(os.pathsep)
    if theirs := [it for it in search if it and "/runtime_resources/" not in it]:
        found["PYTHONPATH"] = os.pathsep.join(theirs)
    found.pop(PATIENCE, None)
    return found


def _world(told: Assignment, rank: int, place: int) -> dict[str, str]:
    """In the words of Open MPI, as `counterpoint run` does it for ranks of its own."""
    words = {
        "JAX_COORDINATOR_ADDRESS": told.coordinator,
        "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{told.coordinator}",
        "OMPI_COMM_WORLD_SIZE": str(told.size),
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(place),
    }
    gpus = [it for it in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if it]
    share = len(gpus) // len(told.ranks)
    if share > 1:  # else JAX takes the one of the rank's place
        mine = range(place * share, (place + 1) * share)
        words["JAX_LOCAL_DEVICE_IDS"] = ",".join(map(str, mine))
    return words


def _holds(path: str, text: str) -> bool:
    try:
        return Path(path).read_text(encoding="utf-8") == text
    except OSError:
        return False


def _address() -> str:
    ray = ray_api()
    return str(ray.util.get_node_ip_address())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
