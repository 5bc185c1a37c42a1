"""What launchers are told: how many hosts, processes and GPUs, and which variables go along.

Slurm's options stand behind `#SBATCH` and `srun`; mpirun has its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from counterpoint.flags.settings import Layout

SLURM: Final = ("srun", "sbatch", "salloc")
MPI: Final = ("mpirun", "mpiexec", "orterun", "prterun")

_SHORT: Final = {"-N": "nodes", "-n": "ntasks", "-c": "cpus-per-task", "-G": "gpus"}
_MPI: Final = {
    **dict.fromkeys(("-np", "-n", "--np", "-c"), "ntasks"),
    **dict.fromkeys(("-npernode", "--npernode", "-N", "-ppn", "--ppn"), "ntasks-per-node"),
}
_PER_NODE: Final = re.compile(r"ppr:(\d+):node")


@dataclass(frozen=True, slots=True)
class Asked:
    """Numbers by the name of Slurm's long option."""

    numbers: tuple[tuple[str, int], ...] = ()

    def layout(self) -> Layout | None:
        """What they come to; None where nothing is said."""
        said = dict(self.numbers)
        hosts, tasks = said.get("nodes"), said.get("ntasks")
        per_host = said.get("ntasks-per-node")
        if per_host is None and tasks and hosts and tasks % hosts == 0:
            per_host = tasks // hosts
        if hosts is None and tasks and per_host and tasks % per_host == 0:
            hosts = tasks // per_host
        layout = Layout(
            hosts=hosts,
            processes_per_host=per_host,
            gpus_per_process=_gpus(said, hosts, per_host),
            cpus_per_process=said.get("cpus-per-task"),
        )
        return None if layout == Layout() else layout


def slurm_options(words: Iterable[str]) -> Asked:
    """Of the words behind `#SBATCH` or `srun`, up to the first that is no option's."""
    return _numbers(list(words), _SHORT)


def mpi_options(words: Sequence[str]) -> Asked:
    """Of the words behind `mpirun`."""
    asked = _numbers(list(words), _MPI)
    for word in words:
        if match := _PER_NODE.match(word):
            asked = replace(asked, numbers=(*asked.numbers, ("ntasks-per-node", int(match[1]))))
    return asked


def together(first: Asked, second: Asked) -> Asked:
    """Both; the second has the last word."""
    return Asked(first.numbers + second.numbers)


def _numbers(words: list[str], short: dict[str, str]) -> Asked:
    found: list[tuple[str, int]] = []
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in short:
            name = short[name]
            value = value if equals else (words[index + 1] if index + 1 < len(words) else "")
        elif word[:2] in short and word[2:].isdigit():
            name, value = short[word[:2]], word[2:]
        elif name.startswith("--"):
            name = name.removeprefix("--")
            value = value if equals else (words[index + 1] if index + 1 < len(words) else "")
        else:
            continue
        number = _number(name, value)
        if number is not None:
            found.append(("gpus-per-node" if name == "gres" else name, number))
    return Asked(tuple(found))


_COUNTS: Final = (
    *("nodes", "ntasks", "ntasks-per-node", "cpus-per-task"),
    *("gpus", "gpus-per-node", "gpus-per-task", "gres"),
)


def _number(name: str, value: str) -> int | None:
    """The count in `8`, `2-2`, `gpu:8` or `gpu:h100:8`; None for a range, or another option."""
    if name not in _COUNTS or (name == "gres" and "gpu" not in value):
        return None
    text = value.partition(",")[0].rpartition(":")[2]
    low, _, high = text.partition("-")
    if not low.isdigit() or (high and high != low):
        return None
    return int(low)


def _gpus(said: dict[str, int], hosts: int | None, per_host: int | None) -> int | None:
    if "gpus-per-task" in said:
        return said["gpus-per-task"]
    on_host = said.get("gpus-per-node")
    if on_host is None and hosts and said.get("gpus", 0) % hosts == 0:
        on_host = said.get("gpus", 0) // hosts or None
    if on_host and per_host and on_host % per_host == 0:
        return on_host // per_host
    return None
