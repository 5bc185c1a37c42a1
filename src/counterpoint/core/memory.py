"""The memory of this machine: what is free, and what the processes of a session hold."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["free_memory", "memory_of_session"]

_FREE: Final = re.compile(r"MemAvailable:\s+(\d+) kB")
_GROUP: Final = Path("/sys/fs/cgroup")
_LIMITS: Final = (
    ("memory.max", "memory.current"),  # cgroups 2, 1
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)
_SHARE: Final = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)
_SESSION, _PAGES = 3, 21
"""Fields of /proc/PID/stat, counted after the name: the session, and resident pages."""


def free_memory() -> float:
    """Return the bytes that this machine, or the process's control group, has left."""
    return min(_free_on_machine(), _free_in_group())


def _free_on_machine() -> float:
    try:
        match = _FREE.search(Path("/proc/meminfo").read_text())
    except OSError:
        match = None
    return 1024.0 * int(match[1]) if match else float("inf")


def _free_in_group() -> float:
    """Return the control group's free memory; batch systems and containers limit it further."""
    for limit, used in _LIMITS:
        try:
            return float((_GROUP / limit).read_text()) - float((_GROUP / used).read_text())
        except (OSError, ValueError):  # missing, or "max"
            continue
    return float("inf")


def memory_of_session(session: int, least: float = 0.0) -> int:
    """Return the bytes of memory that the processes of a session hold, or a process of this id.

    Pages that several of them share count once. To count these takes long, so that a sum which is
    below `least` in any case is returned as it is.
    """
    held = dict(_resident(session))
    if sum(held.values()) < least:
        return sum(held.values())
    return sum(_own_share(pid, size) for pid, size in held.items())


def _resident(session: int) -> Iterator[tuple[int, int]]:
    page = os.sysconf("SC_PAGE_SIZE")
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with suppress(OSError, ValueError, IndexError):  # it has ended
                fields = Path(entry.path, "stat").read_text("utf-8", "replace").rpartition(")")[2]
                words = fields.split()
                if session in (int(words[_SESSION]), int(entry.name)):
                    yield int(entry.name), int(words[_PAGES]) * page


def _own_share(pid: int, resident: int) -> int:
    """Return what a process holds, its part of shared pages included."""
    with suppress(OSError):
        match = _SHARE.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
        if match:
            return int(match[1]) * 1024
    return resident
