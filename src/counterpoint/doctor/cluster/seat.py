"""Seat: which of how many ranks this process is, where a launcher, a pod or the user says so.

Launchers (srun, mpirun) say both numbers. Pods of Kubernetes and hosts of a TPU slice are started
without one: there the user says what the environment does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from counterpoint.capture.world import Seat, World, find_world
from counterpoint.core.errors import UsageError
from counterpoint.doctor.facts import Facts

PODS: Final = "pods"
"""Instead of a launcher's name: every rank is a host, or a pod, of its own."""

_EXAMPLE: Final = "counterpoint doctor --cluster --rank 0 --ranks 2 --meet /shared"


def find_seat(environ: Mapping[str, str], rank: int | None, ranks: int | None) -> World:
    """The world that was told, else the launcher's, else that of a TPU slice or an indexed job."""
    if rank is None and ranks is None:
        world = find_world(environ)
        if world is not None:
            return world
    own_rank, own_size = _tpu(environ)
    if own_rank is None:
        own_rank = _number(environ, "JOB_COMPLETION_INDEX")
    rank = own_rank if rank is None else rank
    size = own_size if ranks is None else ranks
    if rank is None and size is None:
        raise UsageError(
            "--cluster: no launcher has started this process",
            why="srun or mpirun starts one on each host, and they find each other by its variables;"
            " elsewhere each is told: --rank, --ranks and --meet",
            next="srun --ntasks-per-node=1 counterpoint doctor --cluster",
        )
    if rank is None or size is None:
        lacking = "--rank R" if rank is None else "--ranks N"
        raise UsageError(
            f"--cluster: {lacking} is missing",
            why="nothing in the environment says "
            + ("which rank this is" if rank is None else "how many ranks there are"),
            next=_EXAMPLE,
        )
    if not 0 <= rank < size:
        raise UsageError(
            f"--cluster: rank {rank} of {size}: ranks are 0 to N - 1",
            next=_EXAMPLE,
        )
    return World(PODS, size, (Seat(rank, 0),))


def refuse_seat_alone(rank: int | None, ranks: int | None) -> None:
    """Without --cluster nobody meets."""
    if rank is not None or ranks is not None:
        raise UsageError("--rank and --ranks are for --cluster", next=_EXAMPLE)


def place_to_meet(meet: Path | None, world: World) -> Path:
    """Steps of a launcher share the directory they start in; pods share what they are told."""
    if meet is not None:
        return meet
    if world.launcher == PODS and world.size > 1:
        raise UsageError(
            "--cluster: --meet DIR is missing",
            why="without a launcher no directory is known that all ranks see",
            next="name one by --meet, on a volume that all of them mount, another for each job",
        )
    return Path()


def seated(facts: Facts, world: World) -> Facts:
    """The facts, knowing how many hosts there are where no launcher says so."""
    return replace(facts, hosts=world.size) if world.launcher == PODS else facts


def _tpu(environ: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Rank and size as JAX counts them: workers of slice 0 first, then those of slice 1."""
    worker = _number(environ, "TPU_WORKER_ID")
    names = [one for one in environ.get("TPU_WORKER_HOSTNAMES", "").split(",") if one.strip()]
    if worker is None or not names:
        return None, None
    slices = _number(environ, "MEGASCALE_NUM_SLICES") or 1
    mine = _number(environ, "MEGASCALE_SLICE_ID") or 0
    return mine * len(names) + worker, slices * len(names)


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else None
