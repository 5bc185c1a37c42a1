"""Processes by number and start time, from the kernel: a number alone is used again."""

from __future__ import annotations

import os
from pathlib import Path


def start_of(pid: int) -> int | None:
    """Return the start of a process in the kernel's ticks; None if unknown."""
    try:
        return int(_process_fields(pid)[19])
    except (ValueError, IndexError):
        return None


def _process_fields(pid: int) -> list[str]:
    """Return the kernel's fields after the process name, which may contain anything in brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def is_alive(pid: int, started: int | None) -> bool:
    """Return whether the process with this number and start time exists and is not a zombie.

    An ended process keeps its number until its parent reaps it: in a container perhaps nobody does.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it exists, but belongs to another user
    if _process_fields(pid)[:1] in (["Z"], ["X"]):
        return False
    return started is None or start_of(pid) in (started, None)
