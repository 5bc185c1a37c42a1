"""Whether a process is still the one it was: numbers are given out again."""

from __future__ import annotations

import os
from pathlib import Path


def start_of(pid: int) -> int | None:
    """When a process started, in the kernel's ticks; None where that can't be told."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The name in brackets may hold anything, spaces and brackets too.
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def is_alive(pid: int, started: int | None) -> bool:
    """Whether the process with this number, started then, is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's, so it is there
    return started is None or start_of(pid) in (started, None)
