"""A phase: one command line of a workflow, to be carried out or printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from counterpoint.flags import Settings, render_xla_flags
from counterpoint.workflow.feedback.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A command, the settings it runs under beside the user's environment, and what it is for."""

    purpose: str
    command: tuple[str, ...]
    settings: Settings = field(default_factory=Settings)


def script(title: str, phases: Iterable[Phase]) -> str:
    """The phases as shell commands that can be pasted."""
    parts = [f"#!/usr/bin/env bash\n# {title}\nset -euo pipefail"]
    parts += [_lines(number, phase) for number, phase in enumerate(phases, 1)]
    return "\n\n".join(parts) + "\n"


def step_times(task: Task) -> Phase:
    """The last of each script."""
    return Phase(
        purpose="Median step times of the runs; one pair of runs decides nothing",
        command=("counterpoint", "runs", str(task.directory)),
    )


def _lines(number: int, phase: Phase) -> str:
    variables = [f"{name}={shlex.quote(value)}" for name, value in phase.settings.env]
    if phase.settings.xla:
        # What is there already stays: of two equal flags the last one wins.
        flags = _in_double_quotes(render_xla_flags(phase.settings.xla))
        variables.append(f'XLA_FLAGS="${{XLA_FLAGS:-}} {flags}"')
    lines = [*variables, shlex.join(phase.command)]
    return f"# {number}. {phase.purpose}\n" + " \\\n  ".join(lines)


def _in_double_quotes(text: str) -> str:
    return re.sub(r'([\\"$`])', r"\\\1", text)
