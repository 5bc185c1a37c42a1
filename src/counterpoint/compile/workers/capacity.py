"""How many compiles this machine can do at once: by its cores, and by the memory that is free."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

_ONE_COMPILE: Final = 1.5 * 2**30
"""Bytes. The largest of 23 programs of 8 to 2,048 devices took 1.2 GB."""

_FREE: Final = re.compile(r"MemAvailable:\s+(\d+) kB")
_GROUP: Final = Path("/sys/fs/cgroup")
_LIMITS: Final = (
    ("memory.max", "memory.current"),  # cgroups 2, 1
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)


def usual_jobs() -> int:
    """Compiles at once; at least 1."""
    memory = min(_free_memory(), _free_in_group())
    return max(1, min(_cores(), int(memory / _ONE_COMPILE)))


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def _free_memory() -> float:
    try:
        found = _FREE.search(Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    return 1024.0 * int(found[1]) if found else float("inf")


def _free_in_group() -> float:
    """What the control group leaves; batch systems and containers limit less than the machine."""
    for limit, used in _LIMITS:
        try:
            return float((_GROUP / limit).read_text()) - float((_GROUP / used).read_text())
        except (OSError, ValueError):  # not there, or "max"
            continue
    return float("inf")
