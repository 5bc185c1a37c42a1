"""`pgle nsys`: Nsight Systems measures one run; or an export of it exists already."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core.errors import InputError, UsageError
from counterpoint.flags import Settings
from counterpoint.timeline.read import read
from counterpoint.workflow.feedback.feedback import Feedback, feed_back, measurement
from counterpoint.workflow.feedback.manual import COMMAND_BUFFERS_OFF, comparing, make_phase
from counterpoint.workflow.feedback.phase import Phase, room, script
from counterpoint.workflow.feedback.serial import serial_settings
from counterpoint.workflow.feedback.task import (
    NO_CACHE,
    Say,
    Task,
    carry_out,
    claim,
    refuse_flags,
    refuse_platform,
)

_OPTIONS: Final = (
    "--trace=cuda,nvtx",
    "--sample=none",
    "--cpuctxsw=none",
    "--cuda-graph-trace=node",
)


@dataclass(frozen=True, slots=True)
class Nsight:
    """Exports that exist already; else options for `nsys profile`, and how collectives run."""

    exports: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    disable_async: bool = False


def nsys(task: Task, how: Nsight, say: Say) -> Feedback:
    """Measure a run with nsys (or take exports of one), make a profile, run without and with it."""
    refuse_platform(task)
    refuse_flags(task)
    if not how.exports:
        require_nsys(task)
    if how.exports:
        timeline = read(*how.exports)  # refused before anything is made
        claim(task.directory)
        return feed_back(task, "nsys", None, measurement(task, timeline, None, say), say)
    claim(task.directory)
    say("profile run under nsys")
    settings = _settings(task, disable_async=how.disable_async)
    command = _command(task, task.directory / "nsys", how.options)
    run = carry_out(task, "profile", settings, say, profile=False, command=command)
    reports = sorted(task.directory.glob("nsys*.nsys-rep"))
    if not reports:
        raise InputError(
            f"{task.directory}: nsys left no report",
            why="its own messages are in the run's stderr",
            next=f"less {run.ranks[0].stderr}",
        )
    timeline = read(*map(str, reports))
    return feed_back(task, "nsys", run, measurement(task, timeline, run, say), say)


def require_nsys(task: Task) -> None:
    """Refuse to go on without it."""
    if shutil.which("nsys", path=task.inherited.get("PATH")) is None:
        raise UsageError(
            "there is no `nsys` on the PATH",
            why="Nsight Systems is needed to record a run, and to read a .nsys-rep",
            next="install Nsight Systems, or give what it exported elsewhere with --from",
        )


def nsys_script(task: Task, how: Nsight) -> str:
    """The commands that `nsys` stands for."""
    made, report = task.directory / "step.pbtxt", task.directory / "nsys"
    phases = [room(task)]
    if not how.exports:
        phases.append(
            Phase(
                purpose="Profile run: nothing overlaps, so that each time is an instruction's own",
                command=_command(task, report, how.options, one=True),
                settings=_settings(task, disable_async=how.disable_async),
            )
        )
    dump = None if task.starts_ranks else task.directory / "hlo"
    compiled = dump or task.directory / "without-1"
    check = Phase(
        purpose="Does it cover the program? Exits with 1 if not",
        command=("counterpoint", "pgle", "check", str(made), "--program", str(compiled)),
    )
    phases.append(make_phase(task, how.exports or (f"{report}.nsys-rep",), made))
    phases += comparing(task, made, check, dump=dump)
    return script("counterpoint pgle nsys, by hand", phases)


def _settings(task: Task, *, disable_async: bool) -> Settings:
    base = task.under(COMMAND_BUFFERS_OFF, env=NO_CACHE)
    return serial_settings(base, task.inherited, task.jaxlib, disable_async=disable_async)


def _command(
    task: Task, report: Path, options: tuple[str, ...], *, one: bool = False
) -> tuple[str, ...]:
    # Each process that runs here needs a report of its own: %p is its number.
    name = str(report) if one or (task.request.ranks in (None, 1)) else f"{report}-%p"
    return ("nsys", "profile", *_OPTIONS, *options, f"--output={name}", *task.command)
