"""What Slurm has granted: nodes, and what one has of CPUs and GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.tune.executors.executor import Shape
from counterpoint.tune.executors.slurm_control import job_fields, node_names

_CPU_IDS: Final = re.compile(r"\bCPU_IDs=(\S+)")
_GPUS: Final = re.compile(r"\bGRES=\S*?gpu(?::[^:,(\s]+)?:(\d+)")


@dataclass(frozen=True, slots=True)
class Grant:
    """An allocation's job, its nodes in order, and the least that one of them has for it."""

    job: str
    nodes: tuple[str, ...]
    cpus: int
    gpus: int

    def ranks_per_node(self, shape: Shape) -> int:
        """How many processes a node gets."""
        if shape.ranks_per_node is not None:
            return shape.ranks_per_node
        if shape.per == "node":
            return 1
        if not self.gpus:
            raise UsageError(
                f"a process per GPU, but Slurm's job {self.job} has no GPUs",
                next="--ranks-per-node 1",
            )
        return self.gpus

    def refuse_more(self, nodes: int) -> None:
        """No step is larger than its allocation."""
        if nodes > len(self.nodes):
            raise UsageError(
                f"{nodes} nodes, but Slurm's job {self.job} has {len(self.nodes)}",
                why=f"they are {', '.join(self.nodes[:8])}",
                next=f"--nodes {len(self.nodes)}",
            )


def read_grant(job: str, environ: Mapping[str, str] | None = None) -> Grant:
    """Ask Slurm for what a job has."""
    fields = job_fields(job, environ)
    if not fields or fields.get("JobState") != "RUNNING":
        state = "unknown to Slurm" if not fields else fields.get("JobState", "?").lower()
        raise UsageError(
            f"Slurm's job {job} is {state}", next="make a new allocation, or start outside of one"
        )
    return grant_of(job, fields, node_names(fields["NodeList"], environ))


def grant_of(job: str, fields: Mapping[str, str], nodes: tuple[str, ...]) -> Grant:
    """From the fields of `scontrol --details show job`."""
    text = fields[""]
    cpus = [_count(ids) for ids in _CPU_IDS.findall(text)]
    gpus = [int(count) for count in _GPUS.findall(text)]
    groups = len(cpus)
    return Grant(job, nodes, min(cpus, default=1), min(gpus) if gpus and len(gpus) >= groups else 0)


def _count(ids: str) -> int:
    """`0-3,8` are five."""
    ends = (part.partition("-") for part in ids.split(","))
    return sum(int(last or first) - int(first) + 1 for first, _, last in ends)
