"""`counterpoint run`: execute a workload under Settings, and keep all that it leaves."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Final, TextIO

from cyclopts import Parameter

from counterpoint.capture import launch, unfailing
from counterpoint.capture.ranks import find_world
from counterpoint.cli.digest import digest_lines
from counterpoint.cli.workload import ProfileOptions, WorkloadOptions, make_request
from counterpoint.report.runs import run_lines, runs_json
from counterpoint.runs import Run

NO_PROFILE: Final = 3
"""As for a file that is not there."""


def run(
    *command: Annotated[str, Parameter(name="COMMAND...", negative=())],
    workload: WorkloadOptions | None = None,
    profile: ProfileOptions | None = None,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> int:
    """Execute a workload, and keep all that it leaves.

    Its exit code is handed on: 128 + number for a signal, 124 for --timeout and --hang-after. It is
    3 where an option asked for a profile, and none came about though the workload ended well.

    Args:
        command: What to run, behind `--`.
        workload: How.
        profile: What to profile.
        json: Print the run as JSON to stdout, and what the workload prints to stderr.
    """
    profile = profile or ProfileOptions()
    request = make_request(
        command, workload or WorkloadOptions(), profile, echo="stderr" if json else True
    )
    world = find_world(os.environ)
    mine = world.seats[0].rank if world else None
    made = launch(request, say=_say if not mine else _keep_quiet)
    missing = profile.is_explicit and made.outcome.ok and not made.profiles
    if not mine:
        if json:
            sys.stdout.write(runs_json([made]))
        if missing or not json:
            digest = () if json else digest_lines(made)
            say = unfailing(_say)
            for line in run_lines(made, _shown(made), needs_profile=missing, digest=digest):
                say(line)
    _drop_unwritten(sys.stderr)
    if not json:
        _drop_unwritten(sys.stdout)
    status = (made.outcome if mine is None else made.rank(mine).outcome).status
    return NO_PROFILE if missing and not mine else status


def _say(line: str) -> None:
    print(f"counterpoint: {line}", file=sys.stderr)


def _drop_unwritten(stream: TextIO) -> None:
    """What a full disk does not take changes no exit code: that is the program's."""
    try:
        stream.flush()
    except BrokenPipeError:
        pass  # a reader that has gone, which all commands tell alike
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _keep_quiet(line: str) -> None:
    """Of many ranks one talks."""
    del line


def _shown(made: Run) -> Path:
    here = Path.cwd()
    return made.path.relative_to(here) if made.path.is_relative_to(here) else made.path
