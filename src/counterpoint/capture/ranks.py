"""Determines the ranks to start: those of a surrounding launcher, or local ones.

Under srun, mpirun or mpiexec, and in the pods of a job on Kubernetes, each rank is a separate
`counterpoint run`, and JAX finds its peers as usual. Without a launcher the ranks are started here,
with Open MPI's variables, which `jax.distributed.initialize()` understands without arguments.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from counterpoint.core import UsageError

__all__ = ["KUBERNETES", "TPU", "LocalRank", "World", "count_gpus", "find_world"]

LOCAL: Final = "local"
KUBERNETES: Final = "kubernetes"
"""The launcher of pods; the name of their job is the same after a restart."""
TPU: Final = "tpu"
_PODS: Final = (
    ("JAX_PROCESS_ID", ("JAX_NUM_PROCESSES",)),  # Kubeflow Trainer
    ("PROCESS_ID", ("NUM_PROCESSES",)),  # JAXJob of Kubeflow's training operator
    ("NODE_RANK", ("NNODES",)),  # xpk on GPUs, and what MaxText reads there
    ("JOB_COMPLETION_INDEX", ("JAX_PROCESS_COUNT", "JAX_NUM_PROCESSES", "NNODES")),  # xpk on CPUs
)
"""Variables for the rank and the number of ranks that templates of pods set, by precedence.

Kubernetes itself sets only JOB_COMPLETION_INDEX, in each pod of an indexed Job, and JobSet nothing.
"""
_COORDINATORS: Final = ("JAX_COORDINATOR_ADDRESS", "MEGASCALE_COORDINATOR_ADDRESS", "MASTER_ADDR")
_LAUNCHERS: Final = ("srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LocalRank:
    """A rank to start here, and the variables by which it finds the others."""

    rank: int
    local_rank: int
    variables: Mapping[str, str] = field(default_factory=lambda: _NONE)


@dataclass(frozen=True, slots=True)
class World:
    """All ranks of the run: their number, their launcher, and the local ones."""

    launcher: str
    size: int
    seats: tuple[LocalRank, ...]
    job: str | None = None

    @property
    def launched(self) -> bool:
        """True if another program starts the ranks."""
        return self.launcher != LOCAL


def find_world(environ: Mapping[str, str]) -> World | None:
    """Return the world of a surrounding launcher, if any.

    Launchers start each other: Open MPI's helpers are a step of Slurm, but not its ranks.
    """
    slurm, pmi = _slurm(environ), _pmi(environ)
    if pmi is not None and (slurm is None or slurm.size != pmi.size):
        return _openmpi(environ) or pmi
    return _openmpi(environ) or slurm or _pods(environ)


def launcher_within(command: Sequence[str]) -> str | None:
    """Return a warning if the command itself starts ranks: they are recorded as one."""
    name = Path(command[0]).name
    if name not in _LAUNCHERS:
        return None
    return (
        f"warning: all ranks that {name} starts are recorded as one;"
        f" put it first instead: {name} ... counterpoint run -- ..."
    )


def local_world(ranks: int, devices: int = 0) -> World:
    """Return ranks to start here. `devices` are distributed among them; 0 leaves that to JAX."""
    if ranks == 1:
        return World(LOCAL, 1, (LocalRank(0, 0),))
    address = f"127.0.0.1:{_free_port()}"
    return World(
        LOCAL, ranks, tuple(_local_seat(rank, ranks, address, devices) for rank in range(ranks))
    )


def _local_seat(rank: int, ranks: int, address: str, devices: int) -> LocalRank:
    variables = {
        "JAX_COORDINATOR_ADDRESS": address,
        "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{address}",
        "OMPI_COMM_WORLD_SIZE": str(ranks),
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
    }
    if devices > ranks and devices % ranks == 0:
        share = devices // ranks
        local_devices = range(rank * share, (rank + 1) * share)
        variables["JAX_LOCAL_DEVICE_IDS"] = ",".join(map(str, local_devices))
    return LocalRank(rank, rank, MappingProxyType(variables))


def count_gpus(environ: Mapping[str, str]) -> int:
    """Return the number of GPUs that `nvidia-smi -L` lists, limited by CUDA_VISIBLE_DEVICES."""
    tool = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if tool is None:
        return 0
    try:
        listed = subprocess.run(  # noqa: S603
            [tool, "-L"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    gpus = len(re.findall(r"^GPU \d+:", listed.stdout, re.MULTILINE))
    shown = environ.get("CUDA_VISIBLE_DEVICES")
    return (
        gpus if shown is None else min(gpus, len([device for device in shown.split(",") if device]))
    )


def _slurm(environ: Mapping[str, str]) -> World | None:
    """Return a Slurm step; a batch script has SLURM_PROCID too, but no step."""
    if "SLURM_PROCID" not in environ or not environ.get("SLURM_STEP_ID", "").isdecimal():
        return None
    job = ".".join(environ[name] for name in ("SLURM_JOB_ID", "SLURM_STEP_ID") if name in environ)
    restarts = environ.get("SLURM_RESTART_COUNT", "0")
    return _launched(
        environ,
        "slurm",
        job if restarts == "0" else f"{job}-restart{restarts}",
        rank="SLURM_PROCID",
        size="SLURM_NTASKS",
        local="SLURM_LOCALID",
    )


def _openmpi(environ: Mapping[str, str]) -> World | None:
    if "OMPI_COMM_WORLD_RANK" not in environ:
        return None
    names = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri")
    job = next((environ[name] for name in names if environ.get(name)), None)
    return _launched(
        environ,
        "openmpi",
        job,
        rank="OMPI_COMM_WORLD_RANK",
        size="OMPI_COMM_WORLD_SIZE",
        local="OMPI_COMM_WORLD_LOCAL_RANK",
    )


def _pmi(environ: Mapping[str, str]) -> World | None:
    if "PMI_RANK" not in environ:
        return None
    job = environ.get("PMI_JOBID") or None  # MPICH's mpiexec sets none
    return _launched(environ, "pmi", job, rank="PMI_RANK", size="PMI_SIZE", local="MPI_LOCALRANKID")


def _pods(environ: Mapping[str, str]) -> World | None:
    """Return the pods of a job on Kubernetes, or the hosts of TPU slices; None for a single one.

    Without a number of ranks, the pods of an indexed Job need not know of each other.
    """
    in_pod = "KUBERNETES_SERVICE_HOST" in environ or "JOB_COMPLETION_INDEX" in environ
    launcher = KUBERNETES if in_pod else TPU
    names = next(
        (
            (rank, size)
            for rank, sizes in (_PODS if in_pod else ())
            if rank in environ and (size := next((n for n in sizes if n in environ), None))
        ),
        None,
    )
    if names is not None:
        rank, size = (_number(environ, name, launcher) for name in names)
        if names[0] == "JOB_COMPLETION_INDEX" and "PROCESSES_IN_JOB" in environ:
            each = _number(environ, "PROCESSES_IN_JOB", launcher)
            rank += each * _number(environ, "JOB_INDEX", launcher, "0")
    else:
        rank, size = _tpu(environ, launcher)
        names = ("TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES")
    if size <= 1:
        return None
    if rank >= size:
        raise UsageError(
            f"rank {rank} of {size}: ranks are 0 to {size - 1}",
            why=f"{names[0]}={environ[names[0]]!r} and {names[1]}={environ[names[1]]!r}",
            next=f"make {names[1]} the number of all pods",
        )
    return World(launcher, size, (LocalRank(rank, 0),), _pods_job(environ))


def _tpu(environ: Mapping[str, str], launcher: str) -> tuple[int, int]:
    """Return rank and size as JAX counts them: workers of slice 0 first, then those of slice 1."""
    hosts = [name for name in environ.get("TPU_WORKER_HOSTNAMES", "").split(",") if name.strip()]
    if "TPU_WORKER_ID" not in environ or not hosts:
        return 0, 1
    worker = _number(environ, "TPU_WORKER_ID", launcher)
    slices = _number(environ, "MEGASCALE_NUM_SLICES", launcher, "1")
    mine = _number(environ, "MEGASCALE_SLICE_ID", launcher, "0")
    return mine * len(hosts) + worker, slices * len(hosts)


def _pods_job(environ: Mapping[str, str]) -> str | None:
    """Return the name of the JobSet or Job: its own variable, or a part of its pods' host names.

    A JobSet's pods are POD.JOBSET for each other; those of an indexed Job are JOB-INDEX.
    """
    if name := environ.get("JOBSET_NAME"):
        return name
    addresses = [environ.get(name, "") for name in _COORDINATORS]
    for address in (*addresses, environ.get("TPU_WORKER_HOSTNAMES", "")):
        host = address.partition(",")[0].rpartition("//")[2].partition(":")[0]
        _, dot, domain = host.partition(".")
        if dot and not host.replace(".", "").isdecimal():
            return domain.partition(".")[0]
    index = environ.get("JOB_COMPLETION_INDEX", "")
    job, dash, last = environ.get("HOSTNAME", "").rpartition("-")
    return job if dash and last == index else None


def _launched(
    environ: Mapping[str, str], launcher: str, job: str | None, *, rank: str, size: str, local: str
) -> World:
    """Return the world of which these variables tell rank, size and rank on this host."""
    seat = LocalRank(_number(environ, rank, launcher, "0"), _number(environ, local, launcher, "0"))
    return World(launcher, _number(environ, size, launcher, "1"), (seat,), job)


def _number(environ: Mapping[str, str], name: str, launcher: str, default: str = "") -> int:
    text = environ.get(name, default)
    if not (text.isascii() and text.isdecimal()):
        raise UsageError(
            f"{name}={text!r} is not a number, although {launcher} sets it",
            next=f"unset {name}",
        )
    return int(text)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
