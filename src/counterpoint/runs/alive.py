"""Whether a process is still the one it was: numbers are given out again."""

from __future__ import annotations

import os
from pathlib import Path


def start_of(pid: int) -> int | None:
    """When a process started, in the kernel's ticks; None where that can't be told."""
    try:
        return int(_told(pid)[19])
    except (ValueError, IndexError):
        return None


def _told(pid: int) -> list[str]:
    """What the kernel says behind the name, which in its brackets may hold anything."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def is_alive(pid: int, started: int | None) -> bool:
    """Whether the process with this number, started then, is there and can still do something.

    One that has ended keeps its number until its parent asks: in a container perhaps nobody does.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's, so it is there
    if _told(pid)[:1] in (["Z"], ["X"]):
        return False
    return started is None or start_of(pid) in (started, None)
