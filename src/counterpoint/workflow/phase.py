"""A phase: one command line of a workflow, to be carried out or printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from counterpoint.flags import Settings, render_xla_flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A command, the settings it runs under beside the user's environment, and what it is for."""

    purpose: str
    command: tuple[str, ...]
    settings: Settings = field(default_factory=Settings)
    log: str | None = None  # where to keep what it prints


def script(title: str, phases: Iterable[Phase]) -> str:
    """The phases as shell commands that can be pasted."""
    parts = [f"# {title}"]
    parts += [_lines(number, phase) for number, phase in enumerate(phases, 1)]
    return "\n\n".join(parts) + "\n"


def _lines(number: int, phase: Phase) -> str:
    variables = [f"{name}={shlex.quote(value)}" for name, value in phase.settings.env]
    if phase.settings.xla:
        # What is there already stays: of two equal flags the last one wins.
        flags = _in_double_quotes(render_xla_flags(phase.settings.xla))
        variables.append(f'XLA_FLAGS="${{XLA_FLAGS:-}} {flags}"')
    tee = f" 2>&1 | tee {shlex.quote(phase.log)}" if phase.log else ""
    lines = [*variables, shlex.join(phase.command) + tee]
    return f"# {number}. {phase.purpose}\n" + " \\\n  ".join(lines)


def _in_double_quotes(text: str) -> str:
    return re.sub(r'([\\"$`])', r"\\\1", text)
