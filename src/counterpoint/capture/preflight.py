"""What is checked before a workload starts, since XLA would end it much later."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from counterpoint.capture.interpreter import interpreter_path, named_interpreter
from counterpoint.capture.request import Request
from counterpoint.core.errors import UsageError
from counterpoint.flags import Answer, Rejected, environment, inherited_settings
from counterpoint.flags.live.probe import ask, rejection

_INHERITED = "the inherited XLA_FLAGS"


def refuse_unknown_flags(
    request: Request, inherited: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Ask the XLA that will run whether it takes the flags, if there are any.

    Where the command does not name its Python, another may run in the end: then it is said only.
    """
    variables = environment(request.settings, inherited)
    text = variables.get("XLA_FLAGS")
    python = interpreter_path(request.command, variables)
    if not text or python is None:
        return
    answer = ask(python, text, variables)
    if not answer.rejected:
        return
    refused = _refusal(answer, request, inherited_settings(inherited).flags)
    if named_interpreter(request.command, variables) is None:
        say(f"{python} would refuse: {refused.what}")
        return
    raise refused


def _refusal(answer: Answer, request: Request, theirs: Mapping[str, str]) -> UsageError:
    """The error, blamed on those who gave the flags."""
    where = dict.fromkeys(_origin(flag, request, theirs) for flag in answer.rejected)
    told = rejection(answer, where=", ".join(where))
    places = [place for place in where if place != _INHERITED]
    if _INHERITED in where:
        places.append("it where XLA_FLAGS is set")
    return UsageError(told.what, why=told.why, next=f"correct {', and '.join(places)}")


def _origin(flag: Rejected, request: Request, theirs: Mapping[str, str]) -> str:
    """What is inherited comes first: settings that repeat it may be made of it."""
    ours = request.settings.flags.get(flag.name)
    repeated = flag.name in theirs and theirs[flag.name] == ours
    if ours is None or repeated or flag.value not in (None, ours):
        return _INHERITED
    return request.origins.get(flag.name, f"the setting {flag.name}")
