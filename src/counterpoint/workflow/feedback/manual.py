"""`pgle manual`: JAX's profiler measures one run, and the next are compiled with what it saw."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.flags.version import PROFILE
from counterpoint.pgle.files import read_profile
from counterpoint.pgle.make import MEDIAN
from counterpoint.timeline.read import read
from counterpoint.workflow.feedback.comparison import order
from counterpoint.workflow.feedback.feedback import (
    Feedback,
    feed_back,
    given,
    measurement,
)
from counterpoint.workflow.feedback.phase import (
    Phase,
    by_hand,
    compiler_said,
    room,
    script,
    step_times,
)
from counterpoint.workflow.feedback.task import (
    NO_CACHE,
    Say,
    Task,
    carry_out,
    claim,
    refuse_contention,
    refuse_flags,
    refuse_platform,
)

COMMAND_BUFFERS_OFF: Final = ("xla_gpu_enable_command_buffer", "")
"""For a run that is profiled: kernels of a CUDA graph bear no instruction's name."""


_WITH: Final = (
    "With it. The path is absolute, and has to be new for each new profile: JAX keys its "
    "compilation cache by the path, not by the content"
)


def manual(task: Task, say: Say, profile: Path | None = None) -> Feedback:
    """Profile a run, make a profile of it, run without and with it, and prove that it was used."""
    refuse_platform(task)
    refuse_flags(task)
    if profile is not None:
        read_profile(profile)  # what is wrong with it is said before anything is made
    else:
        refuse_contention(task)
    claim(task.directory)
    if profile is not None:
        return feed_back(task, "manual", None, given(task, profile), say)
    say("profile run")
    settings = task.under(COMMAND_BUFFERS_OFF, env=NO_CACHE)
    run = carry_out(task, "profile", settings, say, profile=True)
    if not run.profiles:
        raise InputError(
            f"{run.path}: the run left no profile",
            why=run.why_no_profile,
            next=f"counterpoint explain {shlex.quote(str(run.path))}",
        )
    timeline = read(*map(str, run.profiles))
    return feed_back(task, "manual", run, measurement(task, timeline, run, say), say)


def manual_script(task: Task, profile: Path | None = None) -> str:
    """The commands that `manual` stands for."""
    if profile is not None:
        read_profile(profile)
    made = profile or task.directory / "step.pbtxt"
    measuring = () if profile else _measuring(task, made)
    phases = [room(task), *measuring, *comparing(task, made)]
    return script("counterpoint pgle manual, by hand", phases)


def _measuring(task: Task, made: Path) -> tuple[Phase, ...]:
    profiled = str(task.directory / "profile")
    return (
        Phase(
            purpose="Profile run: CUDA graphs off, so that kernels bear their instructions' names",
            command=task.recorded("profile", profile=True),
            settings=task.under(COMMAND_BUFFERS_OFF, env=NO_CACHE),
        ),
        make_phase(task, (profiled,), made),
        Phase(
            purpose="Does it cover the program? Exits with 1 if not",
            command=("counterpoint", "pgle", "check", str(made), "--program", profiled),
        ),
    )


def make_phase(task: Task, sources: tuple[str, ...], made: Path) -> Phase:
    """The making of the profile."""
    statistic = () if task.percentile == MEDIAN else ("--percentile", f"{task.percentile:g}")
    return Phase(
        purpose="One cost per instruction, for the program it was measured on",
        command=("counterpoint", "pgle", "make", *sources, "-o", str(made), *statistic),
    )


def comparing(
    task: Task, made: Path, *checks: Phase, dump: Path | None = None
) -> tuple[Phase, ...]:
    """The runs without and with a profile, and what proves that it was used.

    The first run without it leaves XLA's dump in `dump`, for `checks` after the runs.
    """
    phases: list[Phase] = []
    names: list[str] = []
    for turn in order(task.repeats):
        kind = "with" if turn else "without"
        names.append(f"{kind}-{1 + sum(it.startswith(f'{kind}-') for it in names)}")
        flags = ((PROFILE, str(made.absolute())),) if turn else ()
        if dump is not None and names[-1] == "without-1":
            flags = (("xla_dump_to", str(dump.absolute())),)
        settings = task.under(*flags, env=NO_CACHE)
        why = _WITH if turn else "Without the profile, all else equal"
        phases.append(by_hand(task, names[-1], why, settings))
    said = "Using PGLE profile|Found profile|Found [0-9]+ instr|Missing [0-9]+"
    phases.append(compiler_said("What the compiler says of it", said, task.log("with-1")))
    return (*phases, *checks, step_times(task, sorted(names)))
