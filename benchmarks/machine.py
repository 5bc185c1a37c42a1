"""What figures depend on: the machine, its load, and the versions."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("jax", "xprof", "polars", "numpy", "protobuf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where and with what was measured; `load` is the average of the minute before."""

    cores: int
    processor: str
    memory_bytes: int
    system: str
    load: float
    versions: dict[str, str]


def describe() -> Machine:
    """The machine as it is now."""
    from counterpoint import __version__  # here: read.py first looks whether it is installed

    return Machine(
        cores=len(os.sched_getaffinity(0)),
        processor=_processor(),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        system=f"Linux {platform.release().split('-')[0]} {platform.machine()}",
        load=os.getloadavg()[0],
        versions={"counterpoint": __version__, "python": platform.python_version()}
        | {name: found for name in PACKAGES if (found := _version(name))},
    )


def _version(package: str) -> str | None:
    """Of a package that not every benchmark needs; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return "processor unknown"
