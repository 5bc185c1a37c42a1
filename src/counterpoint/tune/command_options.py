"""Options of the command: arms that change the program's own options, such as `--batch 16`.

An option that the command has is replaced where it stands; others are appended.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final, TypeAlias

from counterpoint.core import UsageError
from counterpoint.flags.lines.known import is_flag

Words: TypeAlias = tuple[str, ...]

_OPTION: Final = re.compile(r"--?[A-Za-z]")  # and no negative number
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh"})


def is_of_command(text: str) -> bool:
    """Return whether an arm's text names options of the command, and not flags of XLA."""
    try:
        words = shlex.split(text)
    except ValueError:
        return False
    return bool(words) and _is_option(words[0]) and not is_flag(_name(words[0]).lstrip("-"))


def options_in(text: str) -> tuple[Words, ...]:
    """Return each option of an arm's text with its values."""
    found: list[list[str]] = []
    for word in shlex.split(text):
        if _is_option(word) or not found:
            found.append([word])
        else:
            found[-1].append(word)
    return tuple(map(tuple, found))


def varied(text: str, command: Sequence[str]) -> Words:
    """Return the text of an arm for each value of `NAME=a,b`, in the command's own spelling."""
    name, _, values = text.partition("=")
    each = [value for value in values.split(",") if value]
    if not name.strip("-") or not each:
        raise UsageError(
            f"--vary {text}: no option with values",
            why="it takes an option of the command and values to try",
            next="use --vary batch=16,32",
        )
    option = f"--{name.lstrip('-')}"
    if any(word.startswith(f"{option}=") for word in command):
        return tuple(shlex.join([f"{option}={value}"]) for value in each)
    return tuple(shlex.join([option, value]) for value in each)


def with_options(command: Sequence[str], options: Sequence[Words]) -> Words:
    """Return the command with these options."""
    found = list(command)
    for option in options:
        at = next((at for at, word in enumerate(found) if _name(word) == _name(option[0])), None)
        if at is None:
            found += option
            continue
        values = len(option) - 1 + ("=" in option[0])
        end = at + 1
        if "=" not in found[at]:
            while end - at <= values and end < len(found) and not _is_option(found[end]):
                end += 1
        found[at:end] = option
    return tuple(found)


def refuse_shell(command: Sequence[str]) -> None:
    """Raise UsageError for a shell's text: options behind it would reach no program."""
    if command and PurePath(command[0]).name in _SHELLS and "-c" in command:
        raise UsageError(
            f"options can't be added to the text of {command[0]} -c",
            why="arms of the command's options change its words, and a shell's text is one word",
            next="give the program itself after `--`, or a script that passes on its arguments",
        )


def _is_option(word: str) -> bool:
    return _OPTION.match(word) is not None


def _name(word: str) -> str:
    return word.partition("=")[0]
