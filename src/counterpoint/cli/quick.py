"""Parse simple lines of commands that have to respond instantly, without cyclopts.

Loading cyclopts takes longer than such a command does. Anything else (help, an unknown option, one
without its value) goes to cyclopts, which reports what is wrong; so both must accept the same
options, which a test checks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final

from counterpoint import __version__
from counterpoint.core.frozen import frozen


@frozen
class Quick:
    """A command: its function, its positional argument, and its options with their converters.

    An option without a converter is a switch; the converter `list` collects repeated values. Values
    that a converter refuses with a ValueError are left to cyclopts. `behind` is the argument that
    takes all words after `--`, if there is one. `several`: the positional one takes several words.
    """

    function: str
    positional: str
    behind: str | None
    options: Mapping[str, Callable[[str], Any] | None]
    short: Mapping[str, str]
    text: str | None = None  # the prefix of a positional argument that starts with a dash
    several: bool = False


_DIGITS: Final = 18


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS:
        raise ValueError(text)
    return int(text)


def _digest(text: str) -> str:
    if text != "digest":
        raise ValueError(text)
    return text


def _executor(text: str) -> str:
    if text not in ("local", "ray"):
        raise ValueError(text)
    return text


def _grouping(text: str) -> str:
    from counterpoint.diagnose import GROUPINGS

    if text not in GROUPINGS:
        raise ValueError(text)
    return text


QUICK: Final[Mapping[tuple[str, ...], Quick]] = {
    ("flags", "check"): Quick(
        "counterpoint.cli.flags_check_start:run",
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
            "diff": None,
            "out": Path,
            "force": None,
            "json": None,
            "select": list,
            "ignore": list,
            "allow": list,
            "form": str,
        },
        {"o": "out"},
        text="--xla_",
    ),
    ("explain",): Quick(
        "counterpoint.cli.explain_run:run",
        "paths",
        None,
        {
            "step": _count,
            "steps": str,
            "last": _count,
            "device": str,
            "target": str,
            "top": _count,
            "by": _grouping,
            "jobs": _count,
            "memory": float,
            "timings": None,
            "json": None,
            "as": _digest,
            "budget": _count,
            "out": Path,
            "html": Path,
            "full": None,
            "executor": _executor,
            "ray_address": str,
            "topology": Path,
            "digest": Path,
            "strict": None,
            "force": None,
        },
        {"o": "out"},
        several=True,
    ),
}


def quick(words: Sequence[str]) -> Callable[[], int | None] | None:
    """Return the call for a simple command line, or None if cyclopts has to parse it."""
    if tuple(words) == ("--version",):
        return partial(print, __version__)
    for name, command in QUICK.items():
        if tuple(words[: len(name)]) == name:
            bound = _bound(command, list(words[len(name) :]))
            return None if bound is None else _call(command, bound)
    return None


def _call(command: Quick, bound: Mapping[str, Any]) -> Callable[[], int | None]:
    module, _, name = command.function.partition(":")
    words = {f"{key}_" if iskeyword(key) else key: value for key, value in bound.items()}
    return partial(getattr(importlib.import_module(module), name), **words)


def _bound(command: Quick, words: list[str]) -> dict[str, Any] | None:
    bound: dict[str, Any] = {}
    if "--" in words:
        if command.behind is None:
            return None
        at = words.index("--")
        bound[command.behind] = tuple(words[at + 1 :])
        words = words[:at]
    words.reverse()
    while words:
        word = words.pop()
        if _is_text(word, command):
            if command.several:
                bound[command.positional] = (*bound.get(command.positional, ()), word)
            elif command.positional in bound:
                return None
            else:
                bound[command.positional] = word
        elif not _take_option(command, word, words, bound):
            return None
    return bound


def _is_text(word: str, command: Quick) -> bool:
    if word == "-" or not word.startswith("-"):
        return True
    return command.text is not None and word.startswith(command.text)


def _take_option(command: Quick, word: str, rest: list[str], bound: dict[str, Any]) -> bool:
    """Return whether the word is a simple option; its value is taken from the words after it."""
    head, equals, value = word.partition("=")
    bare = head.lstrip("-")
    name = bare.replace("-", "_") if head.startswith("--") else command.short.get(bare, "")
    if name not in command.options or "_" in bare:
        return False
    make = command.options[name]
    if name in bound and make is not list:
        return False
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
        try:
            bound[name] = make(value)
        except ValueError:
            return False
    return True
