"""A command in a process of its own, measured from outside.

Memory is what wait4 reports for that one process: the largest resident set it ever had. That counts
pages of mapped files as well as its own, so a reader that maps the profile is charged for what it
keeps mapped in, though the kernel could take those pages back.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

KIBIBYTE = 1024  # Linux's unit of ru_maxrss


class Failed(Exception):
    """A command that did not do its work."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}\n  why: {why}")


@dataclass(frozen=True, slots=True)
class Trial:
    """What one run took; `cpu_seconds` are those of all its threads."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s, {self.peak_bytes / 1e6:,.0f} MB"


def run(command: Sequence[str], directory: Path) -> Trial:
    """Run to the end and measure; Failed when the command fails."""
    with (
        tempfile.TemporaryFile(dir=directory) as out,
        tempfile.TemporaryFile(dir=directory) as err,
    ):
        began = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            process.kill()  # does nothing to one that has ended
        out.seek(0)
        err.seek(0)
        if process.returncode:
            raise Failed(
                f"exit code {process.returncode} of {' '.join(command)}", _last_words(err.read())
            )
        return Trial(
            seconds=seconds,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            peak_bytes=usage.ru_maxrss * KIBIBYTE,
            output=out.read().decode("utf-8", "replace"),
        )


def _last_words(err: bytes) -> str:
    lines = err.decode("utf-8", "replace").strip().splitlines()
    return "\n       ".join(lines[-4:]) or "it said nothing on stderr"


if not sys.platform.startswith("linux"):
    sys.exit("error: this benchmark reads memory in Linux's units, and runs on Linux only")
