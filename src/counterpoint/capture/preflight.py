"""What is checked before a workload starts, since XLA would end it much later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counterpoint.capture.interpreter import interpreter_path
from counterpoint.flags import Settings, environment
from counterpoint.flags.probe import ask, rejection


def refuse_unknown_flags(
    command: Sequence[str], settings: Settings, inherited: Mapping[str, str]
) -> None:
    """Ask the XLA that will run whether it takes the flags, if there are any."""
    variables = environment(settings, inherited)
    text = variables.get("XLA_FLAGS")
    python = interpreter_path(command, variables)
    if not text or python is None:
        return
    answer = ask(python, text, variables)
    if answer.rejected:
        raise rejection(answer)
