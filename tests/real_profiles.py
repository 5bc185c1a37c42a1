"""Real profiles, read and explained once in each of pytest's workers: neither ever changes."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from counterpoint.diagnose.explanation import Explanation, explain
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.reading import read


def opened(*paths: str | Path) -> Timeline:
    """The Timeline of these files, or of a pattern."""
    return _opened(*_files(paths))


def explained_of(*paths: str | Path) -> Explanation:
    """The explanation of the same."""
    return _explained(*_files(paths))


def _files(paths: tuple[str | Path, ...]) -> list[str]:
    """The files that patterns stand for, in order: however they are named, they are read once."""
    return sorted(
        str(file) for path in map(Path, paths) for file in (*path.parent.glob(path.name),) or [path]
    )


@lru_cache(maxsize=24)
def _opened(*paths: str) -> Timeline:
    return read(*paths)


@lru_cache(maxsize=24)
def _explained(*paths: str) -> Explanation:
    return explain(_opened(*paths))
