"""Quick: command lines of commands that are to answer in a blink, read without cyclopts.

Loading cyclopts takes longer than such a command does. What is not plain here (help, an option
that is not known or lacks its value) goes to cyclopts, which says what is wrong; so both must take
the same options, and a test holds them together.
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
    """A command: its function, its one positional argument, its options with what makes a value.

    An option without a maker is a switch; a maker `list` gathers what is given again and again.
    `behind` is the argument that takes all words behind `--`.
    """

    function: str
    positional: str
    behind: str
    options: Mapping[str, Callable[[str], Any] | None]
    short: Mapping[str, str]
    text: str  # how a positional argument may begin although it begins with a dash


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
    """The call that a plain command line means; None where cyclopts is to read it."""
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
    """Whether a word was a plain option; takes its value from the words that follow."""
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
