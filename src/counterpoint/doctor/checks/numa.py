"""Ranks are not bound to NUMA nodes, or the kernel moves pages between them.

## What it does

Checks the NUMA nodes, the cores that this process may use, and automatic NUMA balancing.

## Why it costs time

A process that feeds a GPU from the other socket uses the link between the sockets. Automatic
balancing unmaps pages to track their use, which stalls the threads that launch kernels.

## How it is detected

On hosts with GPUs and more than one node: several ranks on this host, of which this one may use all
cores, are a note; `kernel.numa_balancing = 1` is a note.

## Example

```
2 NUMA nodes, 8 ranks here, each on all 96 cores
```

## Fix

`srun --cpu-bind=...`, `mpirun --bind-to numa`, or `numactl --cpunodebind=N --membind=N CMD`.

## Fix safety

A rank bound to the wrong node is slower than an unbound one: `nvidia-smi topo -m` shows the
nearest.

## References

- https://docs.kernel.org/admin-guide/sysctl/kernel.html#numa-balancing
- https://docs.nvidia.com/grace-perf-tuning-guide/os-settings.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok

CODE: Final = "DOC503"
NAME: Final = "numa"
SINCE: Final = "0.1"


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield verdicts on binding, then on balancing."""
    machine = facts.machine
    if not facts.has_driver or machine.numa_nodes < 2:
        yield not_applicable("no NVIDIA driver" if not facts.has_driver else "one NUMA node")
        return
    faults = [*_binding(facts), *_balancing(facts)]
    yield from faults
    if not faults:
        yield ok(f"{machine.numa_nodes} NUMA nodes, {machine.cpus_allowed or '?'} cores allowed")


def _binding(facts: HostFacts) -> Iterator[CheckResult]:
    machine = facts.machine
    if facts.ranks_here > 1 and machine.cpus and machine.cpus_allowed == machine.cpus:
        yield CheckResult(
            status=Status.NOTE,
            found=f"{machine.numa_nodes} NUMA nodes, {facts.ranks_here} ranks,"
            f" this one on all {machine.cpus} cores",
            wanted="each rank on the node of its GPU",
            why="memory and launching threads of a rank may be on the other socket",
            remedy="mpirun --bind-to numa ...   # Slurm: srun --cpu-bind=ldoms",
            source="https://docs.nvidia.com/grace-perf-tuning-guide/os-settings.html",
        )


def _balancing(facts: HostFacts) -> Iterator[CheckResult]:
    if facts.network.sysctls.get("kernel.numa_balancing") == "1":
        yield CheckResult(
            status=Status.NOTE,
            found="kernel.numa_balancing = 1",
            wanted="0 on hosts with GPUs",
            why="the kernel unmaps pages to track their use, which stalls threads",
            remedy="sudo sysctl -w kernel.numa_balancing=0",
            source="https://docs.nvidia.com/grace-perf-tuning-guide/os-settings.html",
        )
