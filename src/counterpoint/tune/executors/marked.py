"""Processes of this machine that carry a gang's mark in their environment."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from counterpoint.core.errors import CounterpointError
from counterpoint.tune.executors.kept import MARK

_LIMIT_S: Final = 120.0


def marked(mark: str) -> list[int]:
    """Their numbers, without those that have ended and wait for their parent."""
    sought = f"{MARK}={mark}".encode()
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if sought in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def kill_marked(mark: str) -> None:
    """Kill all of them, and return when there are none."""
    until = time.monotonic() + _LIMIT_S
    while left := marked(mark):
        if time.monotonic() > until:
            raise CounterpointError(
                f"processes {', '.join(map(str, left))} don't end, though they were killed",
                why="the kernel waits for a device or a file system on their behalf",
                next="mend or restart the machine; what was measured so far is kept",
            )
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
