"""Profiles of a small made-up fleet, and fleets as matrices."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from counterpoint.fleet.fleet import Fleet, FleetHost
from counterpoint.fleet.tasks import EXTRACTS, Order, Reduction, reduce_profile
from counterpoint.fleet.topology import HostPlace

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from synthetic_hosts import Cluster, host_spaces

HOSTS = 4
DEVICES = 2
SLOW = 5  # device 1 of host-02


def write_profiles(
    directory: Path, *, slow: int = SLOW, hosts: int = HOSTS, steps: int = 8, layers: int = 2
) -> list[Path]:
    """A profile per host; one device computes slower than the others."""
    cluster = Cluster(
        hosts=hosts,
        devices=DEVICES,
        steps=steps,
        layers=layers,
        kernels=2,
        host_events=10,
        slow=slow,
    )
    directory.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, data in host_spaces(cluster):
        paths.append(directory / f"{name}.xplane.pb")
        paths[-1].write_bytes(data)
    return paths


class TasksHere:
    """An executor that does the tasks in this process, one after the other."""

    retried = 0

    def run(
        self, names: Sequence[str], memory_bytes: int, order: Order = EXTRACTS
    ) -> Generator[Reduction]:
        """Yield the outcome of each task."""
        for name in names:
            yield reduce_profile(name, memory_bytes, order)


def killed_once(marker: str) -> Callable[[str, int, Order], Reduction]:
    """A task that kills its own process if it is the first to leave the marker."""

    def task(name: str, memory_bytes: int, order: Order) -> Reduction:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return reduce_profile(name, memory_bytes, order)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("the process is dead")

    return task


def killed_at(part: str) -> Callable[[str, int, Order], Reduction]:
    """A task that kills its own process whenever it is to read a profile of this name."""

    def task(name: str, memory_bytes: int, order: Order) -> Reduction:
        if part in name:
            os.kill(os.getpid(), signal.SIGKILL)
        return reduce_profile(name, memory_bytes, order)

    return task


def fleet_of(
    waits: NDArray[np.float64], devices: int = 8, *, step_ms: float = 100.0, racks: int = 0
) -> Fleet:
    """A fleet whose devices wait so many milliseconds in each step of this length."""
    count = len(waits) // devices
    hosts = tuple(
        FleetHost(
            name=f"h{number}",
            machine=f"h{number}",
            source=f"h{number}.xplane.pb",
            place=HostPlace(rack=f"r{number % racks}" if racks else None),
            kind="gpu",
            chip="H100",
            program="jit_step",
            build=None,
            steps=waits.shape[1],
        )
        for number in range(count)
    )
    zero = np.zeros_like(waits)
    return Fleet(
        hosts=hosts,
        host_of=np.repeat(np.arange(count), devices),
        ordinals=np.tile(np.arange(devices), count),
        steps=np.arange(waits.shape[1]),
        length=np.full_like(waits, step_ms),
        compute=step_ms - waits,
        hidden=zero,
        exposed=waits,
        copy=zero,
        idle=zero,
        matched_by="step numbers",
    )
