"""The rank of this process, the number of ranks, and the directory where ranks exchange files.

srun and mpirun set both numbers. Kubernetes pods and hosts of a TPU slice start without a launcher;
command-line options then supply what the environment lacks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from counterpoint.capture.ranks import LocalRank, World, find_world
from counterpoint.core import UsageError
from counterpoint.core.arguments import Retry

PODS: Final = "pods"
"""Stands in for a launcher's name: every rank is a host, or a pod, of its own."""

_EXAMPLE: Final = "counterpoint doctor --cluster --rank 0 --ranks 2 --meet /shared"


def find_ranks(environ: Mapping[str, str], rank: int | None, ranks: int | None) -> World:
    """Return the ranks from the options, else from the launcher, a TPU slice or an indexed job."""
    if rank is None and ranks is None:
        world = find_world(environ)
        if world is not None:
            return world
    tpu_rank, tpu_ranks = _tpu(environ)
    pod = tpu_rank if tpu_rank is not None else _number(environ, "JOB_COMPLETION_INDEX")
    rank, ranks = (pod if rank is None else rank), (tpu_ranks if ranks is None else ranks)
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


def _tpu(environ: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return rank and size as JAX counts them: workers of slice 0 first, then those of slice 1."""
    worker = _number(environ, "TPU_WORKER_ID")
    names = [name for name in environ.get("TPU_WORKER_HOSTNAMES", "").split(",") if name.strip()]
    if worker is None or not names:
        return None, None
    slices = _number(environ, "MEGASCALE_NUM_SLICES") or 1
    mine = _number(environ, "MEGASCALE_SLICE_ID") or 0
    return mine * len(names) + worker, slices * len(names)


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else None
