"""`pgle manual`: JAX's profiler measures one run, and the next are compiled with what it saw."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.flags.version import PROFILE
from counterpoint.pgle.files import read_profile
from counterpoint.timeline.read import read
from counterpoint.workflow.feedback import (
    Feedback,
    feed_back,
    given,
    measurement,
)
from counterpoint.workflow.phase import Phase, script
from counterpoint.workflow.task import NO_CACHE, Say, Task, carry_out, claim, refuse_scheduler_off

COMMAND_BUFFERS_OFF: Final = ("xla_gpu_enable_command_buffer", "")
"""For a run that is profiled: kernels of a CUDA graph bear no instruction's name."""


def manual(task: Task, say: Say, profile: Path | None = None) -> Feedback:
    """Profile a run, make a profile of it, run without and with it, and prove that it was used."""
    refuse_scheduler_off(task)
    if profile is not None:
        read_profile(profile)  # what is wrong with it is said before anything is made
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
            next="--profile-start-step N with a step it reaches, or --profile-after-quiet S",
        )
    timeline = read(*map(str, run.profiles))
    return feed_back(task, "manual", run, measurement(task, timeline, run, say), say)


def manual_script(task: Task, profile: Path | None = None) -> str:
    """The commands that `manual` stands for."""
    home = task.directory
    made = profile or home / "step.pbtxt"
    phases = [] if profile else list(_measuring(task, home, made))
    return script("counterpoint pgle manual, by hand", [*phases, *comparing(task, made)])


def _measuring(task: Task, home: Path, made: Path) -> tuple[Phase, ...]:
    return (
        Phase(
            purpose="Profile run: CUDA graphs off, so that kernels bear their instructions' names",
            command=task.by_hand(home / "profile"),
            settings=task.under(COMMAND_BUFFERS_OFF, env=NO_CACHE),
        ),
        Phase(
            purpose="One cost per instruction, for the program it was measured on",
            command=("counterpoint", "pgle", "make", str(home / "profile"), "-o", str(made)),
        ),
        Phase(
            purpose="Does it cover the program? Exits with 1 if not",
            command=(
                *("counterpoint", "pgle", "check", str(made)),
                *("--program", str(home / "profile")),
            ),
        ),
    )


def comparing(task: Task, made: Path) -> tuple[Phase, ...]:
    """The runs without and with a profile."""
    return (
        Phase(
            purpose="Without the profile, all else equal",
            command=task.command,
            settings=task.under(env=NO_CACHE),
            log="without.log",
        ),
        Phase(
            purpose=(
                "With it. Its path should be absolute, and new for each new profile: JAX keys its "
                "compilation cache by the path, not by the content"
            ),
            command=task.command,
            settings=task.under((PROFILE, str(made.absolute())), env=NO_CACHE),
            log="with.log",
        ),
        Phase(
            purpose="What the compiler says of it",
            command=(
                *("grep", "-hE", "Using PGLE profile|Found profile|Found [0-9]+ instr|Missing"),
                "with.log",
            ),
        ),
    )
