"""What a command reads that takes profiles: a Run's directory stands for the profiles in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from counterpoint.cli.progress import Progress
from counterpoint.runs import Run, is_run, profiles_of, read_run
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.read import read

_TOLD = ("jaxlib", "jax")


@dataclass(frozen=True, slots=True)
class Recordings:
    """Profiles to read, and the versions that their Runs tell."""

    paths: tuple[str, ...]
    versions: Mapping[str, str]


def find_recordings(paths: Sequence[str]) -> Recordings:
    """The profiles that paths stand for."""
    found: list[str] = []
    versions: dict[str, str] = {}
    for path in paths:
        if not is_run(Path(path)):
            found.append(path)
            continue
        run = read_run(Path(path))
        found += map(str, profiles_of(run))
        versions |= _versions(run)
    return Recordings(tuple(found), versions)


def _versions(run: Run) -> dict[str, str]:
    processes = (process for rank in run.ranks for process in rank.processes)
    told = {name: version for process in processes for name, version in process.versions.items()}
    return {name: told[name] for name in _TOLD if name in told}


def read_recordings(recordings: Recordings, then: str) -> Timeline:
    """Read them, and say so where it takes long; `then` names what is done with them."""
    with Progress("reading") as progress:

        def say(what: str, done: int, total: int) -> None:
            progress.say(f"reading {what.rpartition('/')[2]}, {done / max(total, 1):.0%}")

        timeline = read(*recordings.paths, progress=say)
        progress.say(then)
        return timeline
