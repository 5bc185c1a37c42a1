"""Which ranks this process is to start: those of a launcher around us, or some of its own.

Under srun, mpirun or mpiexec each rank is a `counterpoint run` of its own, and JAX finds its peers
as it does without us. Without a launcher we start the ranks, and tell JAX about them in the words
of Open MPI, which `jax.distributed.initialize()` understands without arguments.
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

LOCAL: Final = "local"
_LAUNCHERS: Final = ("srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Seat:
    """A rank to be started here, and the variables by which it finds the others."""

    rank: int
    local_rank: int
    variables: Mapping[str, str] = field(default_factory=lambda: _NONE)


@dataclass(frozen=True, slots=True)
class World:
    """All ranks of the run: how many, who launches them, and which of them are ours."""

    launcher: str
    size: int
    seats: tuple[Seat, ...]
    job: str | None = None

    @property
    def launched(self) -> bool:
        """Whether somebody else starts the ranks."""
        return self.launcher != LOCAL


def find_world(environ: Mapping[str, str]) -> World | None:
    """The world that a launcher has put us into, if any.

    Launchers start each other: Open MPI's helpers are a step of Slurm, whose ranks they are not.
    """
    slurm, pmi = _slurm(environ), _pmi(environ)
    if pmi is not None and (slurm is None or slurm.size != pmi.size):
        return _openmpi(environ) or pmi
    return _openmpi(environ) or slurm


def launcher_within(command: Sequence[str]) -> str | None:
    """A warning where the command starts ranks by itself: here all of them are one."""
    name = Path(command[0]).name
    if name not in _LAUNCHERS:
        return None
    return (
        f"warning: ranks that {name} starts are not told apart here;"
        f" put it in front: {name} ... counterpoint run -- ..."
    )


def local_world(ranks: int, devices: int = 0) -> World:
    """Ranks that we start here. `devices`: what to deal out among them; 0 leaves that to JAX."""
    if ranks == 1:
        return World(LOCAL, 1, (Seat(0, 0),))
    address = f"127.0.0.1:{_free_port()}"
    return World(
        LOCAL, ranks, tuple(_local_seat(rank, ranks, address, devices) for rank in range(ranks))
    )


def _local_seat(rank: int, ranks: int, address: str, devices: int) -> Seat:
    variables = {
        "JAX_COORDINATOR_ADDRESS": address,
        "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{address}",
        "OMPI_COMM_WORLD_SIZE": str(ranks),
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
    }
    if devices > ranks and devices % ranks == 0:
        share = devices // ranks
        mine = range(rank * share, (rank + 1) * share)
        variables["JAX_LOCAL_DEVICE_IDS"] = ",".join(map(str, mine))
    return Seat(rank, rank, MappingProxyType(variables))


def count_gpus(environ: Mapping[str, str]) -> int:
    """As many as `nvidia-smi -L` lists, or as many of them as CUDA is shown."""
    tool = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if tool is None:
        return 0
    try:
        listed = subprocess.run(  # noqa: S603
            [tool, "-L"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = len(re.findall(r"^GPU \d+:", listed.stdout, re.MULTILINE))
    shown = environ.get("CUDA_VISIBLE_DEVICES")
    return found if shown is None else min(found, len([one for one in shown.split(",") if one]))


def _slurm(environ: Mapping[str, str]) -> World | None:
    """A step of Slurm. A batch script has a SLURM_PROCID, too, but no step: nothing to share."""
    if "SLURM_PROCID" not in environ or not environ.get("SLURM_STEP_ID", "").isdecimal():
        return None
    job = ".".join(environ[name] for name in ("SLURM_JOB_ID", "SLURM_STEP_ID") if name in environ)
    restarts = environ.get("SLURM_RESTART_COUNT", "0")
    return _launched(
        environ,
        "slurm",
        ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
        job if restarts == "0" else f"{job}-restart{restarts}",
    )


def _openmpi(environ: Mapping[str, str]) -> World | None:
    if "OMPI_COMM_WORLD_RANK" not in environ:
        return None
    names = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri")
    job = next((environ[name] for name in names if environ.get(name)), None)
    names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
    return _launched(environ, "openmpi", names, job)


def _pmi(environ: Mapping[str, str]) -> World | None:
    if "PMI_RANK" not in environ:
        return None
    job = environ.get("PMI_JOBID") or None  # MPICH's mpiexec gives none
    return _launched(environ, "pmi", ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"), job)


def _launched(
    environ: Mapping[str, str], launcher: str, names: tuple[str, str, str], job: str | None
) -> World:
    def number(name: str, default: str) -> int:
        text = environ.get(name, default)
        if not text.isdecimal():
            raise UsageError(
                f"{name}={text!r} is not the number that {launcher} puts there",
                next=f"unset {name}",
            )
        return int(text)

    rank, size, local = names
    seat = Seat(number(rank, "0"), number(local, "0"))
    return World(launcher, number(size, "1"), (seat,), job)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
