"""A phase: one command line of a workflow, to be carried out or printed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from counterpoint.flags import Settings, render_xla_flags
from counterpoint.flags.forms.bash import quoted
from counterpoint.workflow.feedback.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A command, the settings it runs under beside the user's environment, and what it is for.

    With `log`, what it prints is kept in that file, too. With `otherwise`, its failure does not end
    the script: that sentence is printed instead.
    """

    purpose: str
    command: tuple[str, ...]
    settings: Settings = field(default_factory=Settings)
    log: Path | None = None
    otherwise: str = ""


def script(title: str, phases: Iterable[Phase]) -> str:
    """The phases as shell commands that can be pasted."""
    parts = [f"#!/usr/bin/env bash\n# {title}\nset -euo pipefail"]
    parts += [_lines(number, phase) for number, phase in enumerate(phases, 1)]
    return "\n\n".join(parts) + "\n"


def by_hand(task: Task, name: str, purpose: str, settings: Settings) -> Phase:
    """One run of the workload: its own command, or `counterpoint run` where that starts ranks."""
    log = None if task.starts_ranks else task.log(name)
    command = task.recorded(name) if task.starts_ranks else task.command
    return Phase(purpose=purpose, command=command, settings=settings, log=log)


def room(task: Task) -> Phase:
    """The first of each script."""
    return Phase(purpose="A directory for all of it", command=("mkdir", "-p", str(task.directory)))


def compiler_said(purpose: str, lines: str, log: Path) -> Phase:
    """What a log says of the profile. Grep fails where it finds nothing: the script goes on."""
    return Phase(
        purpose=purpose,
        command=("grep", "-hE", lines, str(log)),
        otherwise="none of these lines: the profile was not used",
    )


def step_times(task: Task, names: Iterable[str]) -> Phase:
    """The last of each script."""
    if not task.starts_ranks:
        return Phase(
            purpose="What the runs printed last: compare step times; one pair decides nothing",
            command=("tail", "-n", "5", *(str(task.log(it)) for it in names)),
        )
    return Phase(
        purpose="Median step times of the runs; one pair of runs decides nothing",
        command=("counterpoint", "runs", str(task.directory)),
    )


def _lines(number: int, phase: Phase) -> str:
    variables = [f"{name}={shlex.quote(value)}" for name, value in phase.settings.env]
    if phase.settings.xla:
        # What is there already stays: of two equal flags the last one wins.
        flags = quoted(render_xla_flags(phase.settings.xla))
        variables.append(f'XLA_FLAGS="${{XLA_FLAGS:-}} {flags}"')
    kept = f" 2>&1 | tee {shlex.quote(str(phase.log))}" if phase.log else ""
    instead = f" || echo {shlex.quote(phase.otherwise)}" if phase.otherwise else ""
    lines = [*variables, shlex.join(phase.command) + kept + instead]
    return f"# {number}. {phase.purpose}\n" + " \\\n  ".join(lines)
