"""File names in a Run directory: docs/reference/run-directory.md."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SCHEMA: Final = "counterpoint.run/1"
MANIFEST: Final = "run.json"
RANK_MANIFEST: Final = "rank.json"
STDOUT: Final = "stdout.log"
STDERR: Final = "stderr.log"
AGENT: Final = "agent"
PROFILE: Final = "profile"
XLA: Final = "xla"
IR: Final = "ir"
STEPS_OF_LOG: Final = "steps-log.jsonl"
STEPS_OF_BARS: Final = "steps-bars.jsonl"
STOPPED: Final = ".stopped"
"""Marker written when a rank was ended after its requested steps: the others must end too."""
RESERVE: Final = ".reserve"
"""Space reserved for the final records, in case the disk is full by then."""


def rank_directory(run: Path, number: int) -> Path:
    """Return the directory of a rank's files."""
    return run / f"rank{number}"


def rank_numbers(run: Path) -> list[int]:
    """Return the ranks that have a directory, in order."""
    names = (path.name.removeprefix("rank") for path in run.glob("rank*") if path.is_dir())
    return sorted(int(name) for name in names if name.isdecimal())
