"""How many compiles may run at once: as many as cores and free memory allow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from counterpoint.core.threads import cores

_ONE_COMPILE: Final = 1.5 * 2**30
"""Bytes. The largest of 23 programs of 8 to 2,048 devices took 1.2 GB."""
_FREE: Final = re.compile(r"MemAvailable:\s+(\d+) kB")
_GROUP: Final = Path("/sys/fs/cgroup")
_LIMITS: Final = (
    ("memory.max", "memory.current"),  # cgroups 2, 1
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)
_ONE_FOR_TPUS: Final = 3.0 * 2**30
"""Bytes. A 16B took 1.5 GB, Llama-3.1-8B with offloading and windowed einsums 2.9 GB."""


def usual_jobs(*, tpus: bool = False) -> int:
    """Return the number of concurrent compiles; at least 1."""
    memory = min(_free_memory(), _free_in_group())
    each = _ONE_FOR_TPUS if tpus else _ONE_COMPILE
    return max(1, min(cores(), int(memory / each)))


def _free_memory() -> float:
    try:
        found = _FREE.search(Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    return 1024.0 * int(found[1]) if found else float("inf")


def _free_in_group() -> float:
    """Return the control group's free memory; batch systems and containers limit it further."""
    for limit, used in _LIMITS:
        try:
            return float((_GROUP / limit).read_text()) - float((_GROUP / used).read_text())
        except (OSError, ValueError):  # missing, or "max"
            continue
    return float("inf")
