"""`pgle nsys`: Nsight Systems measures one run, or did before, and the next use its profile."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core import InputError, UsageError
from counterpoint.core.arguments import option_words
from counterpoint.flags.settings import Settings, inherited_settings
from counterpoint.flags.versions import DISABLED_PASSES, async_collectives_off, scheduler_off
from counterpoint.timeline.reading import read
from counterpoint.workflow.feedback.feedback import Feedback, feed_back, measurement
from counterpoint.workflow.feedback.manual import COMMAND_BUFFERS_OFF, comparing, make_phase
from counterpoint.workflow.feedback.task import (
    NO_CACHE,
    FeedbackTask,
    Say,
    ScriptPhase,
    claim_directory,
    directory_phase,
    refuse_flags,
    refuse_platform,
    run_workload,
    script,
)

_OPTIONS: Final = (
    "--trace=cuda,nvtx",
    "--sample=none",
    "--cpuctxsw=none",
    "--cuda-graph-trace=node",
)


@dataclass(frozen=True, slots=True)
class NsysSource:
    """Existing exports, or options for `nsys profile`; async collectives may be disabled."""

    exports: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    disable_async: bool = False


def nsys(task: FeedbackTask, how: NsysSource, say: Say) -> Feedback:
    """Measure a run with nsys (or read exports of one), make a profile, run without and with it."""
    refuse_platform(task)
    refuse_flags(task)
    if not how.exports:
        require_nsys(task)
    if how.exports:
        timeline = read(*how.exports)  # rejected before anything is created
        claim_directory(task.directory)
        return feed_back(task, "nsys", None, measurement(task, timeline, None, say), say)
    claim_directory(task.directory)
    say("profile run under nsys")
    settings = _settings(task, disable_async=how.disable_async)
    command = _command(task, task.directory / "nsys", how.options)
    run = run_workload(task, "profile", settings, say, profile=False, command=command)
    reports = sorted(task.directory.glob("nsys*.nsys-rep"))
    if not reports:
        raise InputError(
            f"{task.directory}: nsys left no report",
            why="its own messages are in the run's stderr",
            next=f"less {run.ranks[0].stderr}",
        )
    timeline = read(*map(str, reports))
    return feed_back(task, "nsys", run, measurement(task, timeline, run, say), say)


def require_nsys(task: FeedbackTask) -> None:
    """Raise a UsageError if nsys is not on the PATH."""
    if shutil.which("nsys", path=task.inherited.get("PATH")) is None:
        raise UsageError(
            "nsys is not on the PATH",
            why="Nsight Systems is needed to record a run, and to read a .nsys-rep",
            next="install Nsight Systems, or pass an existing export with --from",
        )


def nsys_script(task: FeedbackTask, how: NsysSource) -> str:
    """Return the commands that `nsys` runs, as a script."""
    place, report = task.directory / "step.pbtxt", task.directory / "nsys"
    phases = [directory_phase(task)]
    if not how.exports:
        phases.append(
            ScriptPhase(
                purpose="Profile run: nothing overlaps, so that each time is an instruction's own",
                command=_command(task, report, how.options, single=True),
                settings=_settings(task, disable_async=how.disable_async),
            )
        )
    dump = None if task.starts_ranks else task.directory / "hlo"
    compiled = dump or task.directory / "without-1"
    check = ScriptPhase(
        purpose="Does it cover the program? Exits with 1 if not",
        command=("counterpoint", "pgle", "check", str(place), *option_words({"program": compiled})),
    )
    phases.append(make_phase(task, how.exports or (f"{report}.nsys-rep",), place))
    phases += comparing(task, place, check, dump=dump)
    return script("The commands of counterpoint pgle nsys", phases)


def _settings(task: FeedbackTask, *, disable_async: bool) -> Settings:
    base = task.under(COMMAND_BUFFERS_OFF, env=NO_CACHE)
    return serial_settings(base, task.inherited, task.jaxlib, disable_async=disable_async)


def _command(
    task: FeedbackTask, report: Path, options: tuple[str, ...], *, single: bool = False
) -> tuple[str, ...]:
    # Each process on this machine needs its own report: %p is its number.
    name = str(report) if single or (task.request.ranks in (None, 1)) else f"{report}-%p"
    return ("nsys", "profile", *_OPTIONS, *options, f"--output={name}", *task.command)


def serial_settings(
    settings: Settings,
    inherited: Mapping[str, str],
    version: str | None,
    *,
    disable_async: bool,
) -> Settings:
    """Turn the scheduler off, beside other disabled passes; async collectives on request.

    Nothing overlaps then, so an instruction's time is its own. XLA takes a program's fingerprint
    before scheduling, so disabling the scheduler's pass keeps the program. Disabling async
    collectives does not: it compiles another program, in which the same names stand for other
    instructions.
    """
    under = inherited_settings(inherited)
    for name, value in scheduler_off(version):
        settings = (
            settings.joined(name, value, under=under)
            if name == DISABLED_PASSES
            else settings.merged(Settings(((name, value),)))
        )
    if disable_async:
        settings = settings.merged(Settings(async_collectives_off(version)))
    return settings
