"""The check of a run's flags with the XLA that will read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from counterpoint.capture.interpreter import interpreter_path, named_interpreter
from counterpoint.capture.request import RunRequest
from counterpoint.core import UsageError
from counterpoint.flags.probe import ProbeResult, RejectedFlag, probe_flags, rejection_error
from counterpoint.flags.settings import environment, inherited_settings

_INHERITED = "the inherited XLA_FLAGS"


def refuse_unknown_flags(
    request: RunRequest, inherited: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Check the flags, if there are any, with the XLA that will run.

    If the command does not name its Python, another one may run in the end: then it is only a
    message.
    """
    variables = environment(request.settings, inherited)
    text = variables.get("XLA_FLAGS")
    python = interpreter_path(request.command, variables)
    if not text or python is None:
        return
    answer = probe_flags(python, text, variables)
    if not answer.rejected:
        return
    error = _refusal(answer, request, inherited_settings(inherited).flags)
    if named_interpreter(request.command, variables) is None:
        say(f"{python} would reject the flags: {error.what}")
        return
    raise error


def _refusal(answer: ProbeResult, request: RunRequest, theirs: Mapping[str, str]) -> UsageError:
    """Return the error, with the sources of the rejected flags."""
    where = dict.fromkeys(_origin(flag, request, theirs) for flag in answer.rejected)
    error = rejection_error(answer, where=", ".join(where))
    places = [place for place in where if place != _INHERITED]
    if _INHERITED in where:
        places.append("XLA_FLAGS where it is set")
    return UsageError(error.what, why=error.why, next=f"correct {', and '.join(places)}")


def _origin(flag: RejectedFlag, request: RunRequest, theirs: Mapping[str, str]) -> str:
    """Return the source of a flag; the environment first, since settings may repeat it."""
    requested = request.settings.flags.get(flag.name)
    repeated = flag.name in theirs and theirs[flag.name] == requested
    if requested is None or repeated or flag.value not in (None, requested):
        return _INHERITED
    return request.origins.get(flag.name, f"the setting {flag.name}")
