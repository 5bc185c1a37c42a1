"""File names in a Run directory (docs/reference/run-directory.md), and how to recognize one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from counterpoint.core import InputError

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
ENTERED: Final = "entered"
"""Marker in the agent's directory: a Python of the rank has loaded the agent."""
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


def is_run(path: str | os.PathLike[str]) -> bool:
    """Return whether this is a Run directory, even a damaged one."""
    try:
        manifest = Path(path) / MANIFEST
        text = manifest.read_text(encoding="utf-8", errors="replace")[:4096]
    except (OSError, ValueError):
        return False
    return "counterpoint.run/" in text or bool(rank_numbers(Path(path)))


def find_runs(directory: str | os.PathLike[str]) -> list[Path]:
    """Return the Run directories in a directory, or the directory itself; oldest name first."""
    place = Path(directory)
    if is_run(place):
        return [place]
    try:
        return sorted(path for path in place.iterdir() if path.is_dir() and is_run(path))
    except NotADirectoryError:
        raise InputError(
            f"{place}: not a directory",
            why="pass a Run, or a directory that contains Runs",
            next="counterpoint runs .",
        ) from None
    except FileNotFoundError:
        raise InputError(
            f"{place}: no such directory",
            why="runs lie there, except those that were put elsewhere, as with `run -o`; name the"
            " directory that contains them",
            next="counterpoint runs .",
        ) from None
    except OSError as failure:
        raise InputError(
            f"{place}: cannot be read: {failure.strerror or failure}",
            next="counterpoint runs .",
        ) from None
