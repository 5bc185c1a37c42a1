"""Parse simple lines of commands that have to respond instantly, without cyclopts.

Loading cyclopts takes longer than such a command does. Anything else (help, an unknown option, one
without its value) goes to cyclopts, which reports what is wrong; so both must accept the same
options, which a test checks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Quick:
    """A command: its function, its one positional argument, and its options with their converters.

    An option without a converter is a switch; the converter `list` collects repeated values.
    `behind` is the argument that takes all words after `--`.
    """

    function: str
    positional: str
    behind: str
    options: Mapping[str, Callable[[str], Any] | None]
    short: Mapping[str, str]
    text: str  # the prefix of a positional argument that starts with a dash


QUICK: Final[Mapping[tuple[str, ...], Quick]] = {
    ("flags", "check"): Quick(
        "counterpoint.cli.flags_check_run:run",
        "source",
        "command",
        {
            "env": None,
            "jaxlib": str,
            "python": Path,
            "target": str,
            "chip": str,
            "profiling": None,
            "no_probe": None,
            "fix": None,
            "out": Path,
            "force": None,
            "json": None,
            "select": list,
            "ignore": list,
            "allow": list,
            "form": str,
        },
        {"o": "out"},
        "--xla_",
    )
}


def quick(words: Sequence[str]) -> Callable[[], int | None] | None:
    """Return the call for a simple command line, or None if cyclopts has to parse it."""
    for name, command in QUICK.items():
        if tuple(words[: len(name)]) == name:
            bound = _bound(command, list(words[len(name) :]))
            return None if bound is None else _call(command, bound)
    return None


def _call(command: Quick, bound: Mapping[str, Any]) -> Callable[[], int | None]:
    module, _, name = command.function.partition(":")
    return partial(getattr(importlib.import_module(module), name), **bound)


def _bound(command: Quick, words: list[str]) -> dict[str, Any] | None:
    bound: dict[str, Any] = {}
    if "--" in words:
        at = words.index("--")
        bound[command.behind] = tuple(words[at + 1 :])
        words = words[:at]
    words.reverse()
    while words:
        word = words.pop()
        if word == "-" or not word.startswith("-") or word.startswith(command.text):
            if command.positional in bound:
                return None
            bound[command.positional] = word
        elif not _take_option(command, word, words, bound):
            return None
    return bound


def _take_option(command: Quick, word: str, rest: list[str], bound: dict[str, Any]) -> bool:
    """Return whether the word is a simple option; its value is taken from the words after it."""
    head, equals, value = word.partition("=")
    bare = head.lstrip("-")
    name = bare.replace("-", "_") if head.startswith("--") else command.short.get(bare, "")
    if name not in command.options or "_" in bare:
        return False
    make = command.options[name]
    if make is None:
        bound[name] = True
        return not equals
    if not equals:
        if not rest or rest[-1].startswith("-"):
            return False
        value = rest.pop()
    if make is list:
        bound[name] = (*bound.get(name, ()), value)
    else:
        bound[name] = make(value)
    return True
