"""Recordings that a command makes something of: read with a word on how long it takes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from counterpoint.cli.progress import Progress
from counterpoint.core.errors import UsageError
from counterpoint.report.printable import printable
from counterpoint.runs import is_run, read_run
from counterpoint.runs.read import read
from counterpoint.timeline.model import Timeline

_TOLD = ("jaxlib", "jax")


def read_recordings(paths: Sequence[str], then: str) -> Timeline:
    """Read them, and say so where it takes long; `then` names what is done with them."""
    with Progress("reading") as progress:
        timeline = read(*paths, progress=progress.read)
        progress.say(then)
        return timeline


def versions_told(paths: Sequence[str]) -> dict[str, str]:
    """Versions of JAX that a Run among the paths tells."""
    told: dict[str, str] = {}
    for path in paths:
        if is_run(Path(path)):
            told |= read_run(Path(path)).versions
    return {name: told[name] for name in _TOLD if name in told}


def manual(profile: str, program: Path) -> str:
    """The command that runs with a profile: of the Run that the program is from, or an example."""
    command = read_run(program).command if is_run(program) else ("python", "train.py")
    words = ["counterpoint", "pgle", "manual", "--profile", profile, "--", *command]
    return printable(shlex.join(words))


def refuse_over_input(out: str, timeline: Timeline) -> None:
    """Refuse to write over what was read."""
    read_from = [*timeline.inputs, *(host.source for host in timeline.hosts)]
    if any(Path(out).resolve() == Path(name).resolve() for name in read_from):
        raise UsageError(f"{out} is what is to be read", next="choose another name")
