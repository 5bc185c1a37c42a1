"""What is checked before a workload starts, since XLA would end it much later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from counterpoint.capture.interpreter import interpreter_path, named_interpreter
from counterpoint.flags import Settings, environment
from counterpoint.flags.probe import ask, rejection


def refuse_unknown_flags(
    command: Sequence[str],
    settings: Settings,
    inherited: Mapping[str, str],
    say: Callable[[str], None],
) -> None:
    """Ask the XLA that will run whether it takes the flags, if there are any.

    Where the command does not name its Python, another may run in the end: then it is said only.
    """
    variables = environment(settings, inherited)
    text = variables.get("XLA_FLAGS")
    python = interpreter_path(command, variables)
    if not text or python is None:
        return
    answer = ask(python, text, variables)
    if not answer.rejected:
        return
    if named_interpreter(command, variables) is None:
        say(f"{python} would refuse: {rejection(answer).what}")
        return
    raise rejection(answer)
