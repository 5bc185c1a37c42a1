"""Gathers the facts of this host."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

from counterpoint.capture.ranks import World, find_world
from counterpoint.core import CounterpointError
from counterpoint.doctor.facts import (
    HostFacts,
    KernelClock,
)
from counterpoint.doctor.gather.gpus import gather_gpus
from counterpoint.doctor.gather.kernel_files import names_in, text_of
from counterpoint.doctor.gather.machine import gather_machine
from counterpoint.doctor.gather.network import gather_network
from counterpoint.doctor.gather.places import gather_places
from counterpoint.doctor.gather.settings import gather_flags, seen_environment
from counterpoint.doctor.gather.software import gather_software
from counterpoint.doctor.gather.tools import RunTool, run_tool
from counterpoint.flags.jaxlib import find_interpreter


def gather(
    environment: Mapping[str, str],
    *,
    root: Path = Path("/"),
    ask: RunTool = run_tool,
    python: Path | None = None,
    probe: bool = True,
    dcn: bool = False,
    clock: KernelClock | None = None,
) -> HostFacts:
    """Gather the facts of this host. `dcn`: a step's traffic between hosts is known to use TCP."""
    host = socket.gethostname()
    hosts, ranks_here = _counts(environment)
    from counterpoint.pgle.making.contention import processes_here

    interpreter = find_interpreter(python, environment)
    slices = environment.get("MEGASCALE_NUM_SLICES", "")
    return HostFacts(
        host=host,
        hosts=hosts,
        ranks_here=ranks_here,
        dcn=dcn or (slices.isdecimal() and int(slices) > 1),
        tpu=_has_tpu(root),
        privileged=_privileged(root),
        environment=seen_environment(environment),
        processes=processes_here(root / "proc"),
        software=gather_software(environment, interpreter.python if interpreter else None, ask),
        flags=gather_flags(environment, interpreter, probe=probe),
        network=gather_network(root, ask, host),
        gpus=gather_gpus(root, ask),
        machine=gather_machine(root, clock),
        places=gather_places(root, environment, Path.cwd()),
    )


def _counts(environment: Mapping[str, str]) -> tuple[int, int]:
    """Return the number of hosts that run together and of ranks on this one, from launchers."""
    try:
        world = find_world(environment)
    except CounterpointError:
        return 1, 1
    if world is None:
        names = environment.get("TPU_WORKER_HOSTNAMES", "")  # workers of a TPU slice
        workers = len([name for name in names.split(",") if name.strip()])
        batch = _number(environment, "SLURM_JOB_NUM_NODES", "SLURM_NNODES")  # before the first step
        return max(1, workers, batch), 1
    ranks_here = _number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
    ranks_here = ranks_here or _slurm_ranks_here(environment, world)
    hosts = _number(environment, "SLURM_STEP_NUM_NODES", "SLURM_NNODES")
    if "OMPI_COMM_WORLD_LOCAL_SIZE" in environment or not hosts:
        hosts = -(-world.size // ranks_here)
    return min(hosts, world.size), ranks_here


def _slurm_ranks_here(environment: Mapping[str, str], world: World) -> int:
    """Return the first number of `4(x2),3`: enough to see whether there are several."""
    first = environment.get("SLURM_STEP_TASKS_PER_NODE", "").partition(",")[0].partition("(")[0]
    return int(first) if first.isdecimal() and int(first) else world.size


def _number(environment: Mapping[str, str], *names: str) -> int:
    texts = (environment.get(name, "") for name in names)
    return next((int(text) for text in texts if text.isdecimal() and int(text)), 0)


def _has_tpu(root: Path) -> bool:
    """Detect a TPU: an accel device file, or a vfio device file on a machine of Google's."""
    if any(name.startswith("accel") for name in names_in(root / "dev")):
        return True
    return bool(set(names_in(root / "dev/vfio")) - {"vfio"}) and _google(root)


def _google(root: Path) -> bool:
    return "Google" in (text_of(root / "sys/class/dmi/id/product_name") or "")


def _privileged(root: Path) -> bool:
    for line in (text_of(root / "proc/self/status") or "").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) & (1 << 21))  # CAP_SYS_ADMIN
    return os.geteuid() == 0
