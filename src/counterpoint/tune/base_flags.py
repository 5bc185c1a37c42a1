"""Flags of the base that the command's own XLA does not take: refused before anything is run.

The catalogue may be wrong about a flag, so the compiler that will run is asked itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from counterpoint.capture.interpreter import named_interpreter
from counterpoint.core.errors import UsageError
from counterpoint.flags import Answer, Rejected, Settings, environment, inherited_settings
from counterpoint.flags.live.probe import ask

_INHERITED: Final = "XLA_FLAGS of your environment"
_OURS: Final = "the base (--set, --env, --recipe)"
_UNKNOWN: Final = "unknown flag"


def refuse_unknown(base: Settings, command: Sequence[str], inherited: Mapping[str, str]) -> None:
    """UsageError for flags that would end every run.

    Where the command does not name its Python, another may run in the end: nobody is asked then.
    """
    variables = environment(base, inherited)
    text = variables.get("XLA_FLAGS")
    python = named_interpreter(command, variables)
    if not text or python is None:
        return
    answer = _asked(python, text, tuple(sorted(variables.items())))
    if not answer.rejected:
        return
    theirs = inherited_settings(inherited).flags
    by_place: dict[str, list[Rejected]] = {}
    for it in dict.fromkeys(answer.rejected):
        is_theirs = it.name in theirs and it.value in (None, theirs[it.name])
        by_place.setdefault(_INHERITED if is_theirs else _OURS, []).append(it)
    said = [f"{place}: {', '.join(_said(answer, some))}" for place, some in by_place.items()]
    hints = dict.fromkeys(f"{it.name}: {it.hint}" for some in by_place.values() for it in some)
    raise UsageError(
        "; ".join(said),
        why="XLA ends the process at such a flag. " + " ".join(hints),
        next="leave it out, or write it as `counterpoint flags list` spells it",
    )


def _said(answer: Answer, some: Sequence[Rejected]) -> Iterator[str]:
    unknown = [it.name for it in some if it.reason == _UNKNOWN]
    if unknown:
        yield f"jaxlib {answer.version} does not know {', '.join(dict.fromkeys(unknown))}"
    for it in some:
        if it.reason != _UNKNOWN:
            yield f"jaxlib {answer.version} does not take {it.name}={it.value or ''}"


@lru_cache(maxsize=8)
def _asked(python: Path, text: str, variables: tuple[tuple[str, str], ...]) -> Answer:
    """The same question comes up more than once on the way to a study."""
    return ask(python, text, dict(variables))
