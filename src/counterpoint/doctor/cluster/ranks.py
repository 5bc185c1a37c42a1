"""The rank of this process, the number of ranks, and the directory where ranks exchange files.

srun, mpirun, and pods of a job set both numbers; command-line options supply what the environment
lacks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from counterpoint.capture.ranks import KUBERNETES, TPU, LocalRank, World, find_world
from counterpoint.core import UsageError
from counterpoint.core.arguments import Retry

PODS: Final = "pods"
"""Stands in for a launcher's name: every rank is a host, or a pod, of its own."""

_EXAMPLE: Final = "counterpoint doctor --cluster --rank 0 --ranks 2 --meet /shared"


def find_ranks(environ: Mapping[str, str], rank: int | None, ranks: int | None) -> World:
    """Return the ranks from the options, else from the launcher, a TPU slice or a job's pods."""
    if rank is None and ranks is None:
        world = find_world(environ)
        if world is not None:
            return replace(world, launcher=PODS) if world.launcher in (KUBERNETES, TPU) else world
    if rank is None and (index := environ.get("JOB_COMPLETION_INDEX", "")).isdecimal():
        rank = int(index)  # Kubernetes sets it, but no number of pods
    if rank is None and ranks is None:
        raise UsageError(
            "`cluster=`: no launcher started this process",
            why="srun and mpirun set the rank of each process; without them, use `rank=`, `ranks=`"
            " and `meet=`",
            next="srun --ntasks-per-node=1 counterpoint doctor --cluster",
        )
    if rank is None or ranks is None:
        missing = "`rank=R`" if rank is None else "`ranks=N`"
        raise UsageError(
            f"`cluster=`: {missing} is missing",
            why="the environment does not set it",
            next=_EXAMPLE,
        )
    if not 0 <= rank < ranks:
        raise UsageError(f"`cluster=`: rank {rank} of {ranks}: ranks are 0 to N - 1", next=_EXAMPLE)
    return World(PODS, ranks, (LocalRank(rank, 0),))


def exchange_directory(meet: Path | None, world: World) -> Path:
    """Return the directory of this job's ranks, the same on all of them; rank 0 creates it.

    Under a launcher it defaults to the current directory, which the steps of a job share. Its name
    contains the number of Slurm's job and step.
    """
    if meet is None and world.launcher == PODS and world.size > 1:
        raise UsageError(
            "`cluster=`: `meet=DIR` is missing",
            why="without a launcher, the shared directory is unknown",
            next=Retry({"meet": "/shared"}, remark="a directory on a volume that all ranks mount"),
        )
    job = re.sub(r"[^\w.-]+", "-", world.job or "")[:80] or world.size
    return (meet or Path()) / f".counterpoint-doctor-{world.launcher}-{job}"
