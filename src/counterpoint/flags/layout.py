"""Layout: how many hosts, processes and GPUs a program runs on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """None stands for what is not said."""

    hosts: int | None = None
    processes_per_host: int | None = None
    gpus_per_process: int | None = None
    cpus_per_process: int | None = None
