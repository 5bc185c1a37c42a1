"""`counterpoint run --repeat N --against RUN`: runs of two sides, so that a drift cancels.

A machine that becomes slower from run to run makes later runs slower, whatever they run. In the
order ABBA both sides are equally late.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Final

from counterpoint.capture import RunRequest, launch, refuse_unstartable
from counterpoint.capture.ranks import find_world
from counterpoint.core import InputError, UsageError
from counterpoint.flags.settings import Settings
from counterpoint.report.runs import steps_line
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import Run
from counterpoint.workflow.feedback import abba_order

_DEFAULT: Final = 3
_LOCAL: Final = "local"

Say = Callable[[str], None]


def run_repeated(
    request: RunRequest, repeat: int | None, against: Path | None, say: Say
) -> tuple[list[Run], int]:
    """Make the runs one after the other; return them and the exit code.

    It ends with the first run that fails, whose exit code is returned: what remains would not be
    compared.
    """
    repeat = _DEFAULT if repeat is None else repeat
    if (world := find_world(os.environ)) is not None:
        raise UsageError(
            f"--repeat starts one run after the other; {world.launcher} starts the ranks of one",
            why="all ranks would have to begin each run together",
            next="omit --repeat and --against",
        )
    base = None if against is None else _request_of(read_run(against), request)
    directory = _directory(request)
    refuse_unstartable(request)  # the first run is of the other side
    made: list[Run] = []
    for name, side in _sides(repeat, compared=base is not None):
        chosen = base if side == "a" and base is not None else (request, Path.cwd())
        run = _launched(*chosen, directory / name, say)
        made.append(run)
        say(f"{name}: {run.outcome}; {steps_line(run)}")
        if not run.outcome.ok:
            say(f"{name} failed, so no further run is made")
            return made, run.outcome.status
    say(f"next: {_next(directory, compared=base is not None)}")
    return made, 0


def _sides(repeat: int, *, compared: bool) -> Iterator[tuple[str, str]]:
    """Yield the name and the side of each run: a1 b1 b2 a2 a3 b3, or 1 2 3."""
    if not compared:
        yield from ((str(number + 1), "b") for number in range(repeat))
        return
    counts = {"a": 0, "b": 0}
    for is_b in abba_order(repeat):
        side = "b" if is_b else "a"
        counts[side] += 1
        yield f"{side}{counts[side]}", side


def _request_of(run: Run, request: RunRequest) -> tuple[RunRequest, Path]:
    """Return how to repeat a Run, with the profile and limits of the other side, and where."""
    if run.launcher != _LOCAL:
        raise InputError(
            f"{run.path} was started by {run.launcher}, so it can't be repeated here",
            next="submit the jobs of both in the order A B B A",
        )
    if not Path(run.cwd).is_dir():
        raise InputError(
            f"{run.path} ran in {run.cwd}, which no longer exists",
            next=f"counterpoint run -- {shlex.join(run.command)}",
        )
    again = replace(
        request,
        command=run.command,
        name=run.name,
        settings=Settings(run.settings.xla, run.settings.env),
        ranks=run.world_size if run.world_size > 1 else None,
        per="node",
        origins={},
    )
    return again, Path(run.cwd)


def _directory(request: RunRequest) -> Path:
    """Return the directory of all runs, which must be empty or new."""
    name = request.name or "repeated"
    given = request.directory or Path(
        "counterpoint-runs", f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    )
    if given.exists() and (not given.is_dir() or any(given.iterdir())):
        raise UsageError(
            f"{given} exists and is not empty",
            why="it will hold one directory per run",
            next="omit -o",
        )
    return given.absolute()


def _launched(request: RunRequest, cwd: Path, directory: Path, say: Say) -> Run:
    with chdir(cwd):
        return launch(replace(request, directory=directory), say=say)


def _next(directory: Path, *, compared: bool) -> str:
    shown = directory
    if directory.is_relative_to(Path.cwd()):
        shown = directory.relative_to(Path.cwd())
    if not compared:
        return shlex.join(["counterpoint", "runs", str(shown)])
    place = shlex.quote(str(shown))
    return f"counterpoint compare {place}/a* --with {place}/b*"
