"""`read`: any profile as one Timeline; a Run stands for the profiles of all its ranks."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, cast

from counterpoint.core import ArgumentError, InputError, UsageError
from counterpoint.runs.layout import find_runs, is_run
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.reading import Progress
from counterpoint.timeline.reading import read as read_profiles

__all__ = ["profile_paths", "read"]


def read(
    *paths: str | PathLike[str],
    progress: Progress | None = None,
    jobs: int | None = 1,
    memory_bytes: int | None = None,
    steps: str | range | None = None,
    last: int | None = None,
) -> Timeline:
    """Read profiles into one Timeline.

    A path may be a Run, a file in a known format (docs/formats), a profile directory, a stored
    Timeline, a zip, a glob, or a URL that fsspec knows. Several files are several hosts of one run.
    `jobs` is the number of processes that read them (None: one per core, if worthwhile).
    `memory_bytes` limits the memory for captures written piece by piece, of which the last pieces
    are then left out; by default half of the machine's.

    `steps` keeps only these steps, as a `range` or as "A:B", "A:" or ":B", in which B does not
    count; `last` keeps the last so many. Only steps that were recorded whole count.
    """
    if memory_bytes is not None and memory_bytes < 1:
        raise ArgumentError(
            "memory_bytes", memory_bytes, "not a positive number of bytes", instead="6_000_000_000"
        )
    if jobs is not None and jobs < 1:
        raise ArgumentError("jobs", jobs, "not a positive number of processes", instead="1")
    names = profile_paths(paths)
    options: dict[str, Any] = {} if progress is None else {"progress": progress}
    return read_profiles(
        *names, jobs=jobs, memory_bytes=memory_bytes, steps=steps, last=last, **options
    )


def profile_paths(paths: tuple[str | PathLike[str], ...]) -> Iterator[str | PathLike[str]]:
    """Yield the paths, and instead of a Run those of its profiles."""
    paths = tuple(name for path in paths for name in _named_runs(path))
    runs = {str(path) for path in paths if _is_run(path)}
    if len(runs) > 1:
        raise UsageError(
            f"{' and '.join(sorted(runs)[:2])} are different runs, not hosts of one run",
            next=f"counterpoint explain {shlex.quote(min(runs))}",
        )
    for path in paths:
        if _is_run(path):
            from counterpoint.runs.reader import profiles_of, read_run

            yield from profiles_of(read_run(path))
        elif _holds_runs(path):
            raise InputError(
                f"{path} is a directory of runs, not a profile",
                next=f"counterpoint runs {shlex.quote(str(path))}",
            )
        else:
            yield path  # invalid types are refused with the others, later


def _named_runs(path: str | PathLike[str]) -> list[str | PathLike[str]]:
    """Return the matches of a pattern if there are Runs among them; else the path itself."""
    if isinstance(path, str) and glob.has_magic(path) and not Path(path).exists():
        matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - may be absolute
        if any(_is_run(match) for match in matches):
            return list(matches)
    return [path]


def _is_run(path: object) -> bool:
    return isinstance(path, str | PathLike) and is_run(cast("str | PathLike[str]", path))


def _holds_runs(path: object) -> bool:
    """Return whether a path is a directory of Runs, whose profiles are not of one run."""
    if not isinstance(path, str | PathLike):
        return False
    place = Path(cast("str | PathLike[str]", path))
    try:
        return place.is_dir() and not (place / "plugins").is_dir() and bool(find_runs(place))
    except (OSError, ValueError, InputError):
        return False  # its reader reports why it can't be read
