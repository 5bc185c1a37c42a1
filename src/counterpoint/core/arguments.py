"""Arguments in texts: named as in Python, until a command words them as its options.

The rooms below `cli` do not know the command line. Where their texts (errors, notes, remedies) name
an argument of the caller, it stands between backticks as in a call: "raise `candidates=`", or
with a value "`budget=2h`". `cli` shows them as "raise --candidates" and "--budget 2h".

Advice to make the same call with other arguments is data, a `Retry`: `cli` makes of it the whole
command to paste.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

__all__ = [
    "Retry",
    "arguments_in",
    "option_of",
    "option_words",
    "rename_arguments",
    "reword_arguments",
]

_ARGUMENT: Final = re.compile(r"`([a-z][a-z_]*)=([^`]*)`")


def reword_arguments(text: str, word: Callable[[str, str], str]) -> str:
    """Replace each argument of a text by `word(name, value)`; the value may be empty."""
    return _ARGUMENT.sub(lambda found: word(found[1], found[2]), text)


def arguments_in(text: str) -> dict[str, str]:
    """Return the arguments that a text names, with their values."""
    return {found[1]: found[2] for found in _ARGUMENT.finditer(text)}


def rename_arguments(text: str, names: Mapping[str, str]) -> str:
    """Rename arguments of a text, for a caller that takes them under other names."""
    return reword_arguments(text, lambda name, value: _shown(names.get(name, name), value))


def option_of(argument: str) -> str:
    """Return the option that takes an argument on the command line."""
    return f"--{argument.replace('_', '-')}"


def option_words(arguments: Mapping[str, object]) -> list[str]:
    """Return arguments as options of a command of Counterpoint that is started as a program.

    Those that are None or False are left out; a tuple gives the option once per value.
    """
    words: list[str] = []
    for name, given in arguments.items():
        for value in cast("tuple[object, ...]", given if isinstance(given, tuple) else (given,)):
            if value is True:
                words.append(option_of(name))
            elif value is not None and value is not False:
                words += _option_with(option_of(name), f"{value}")
    return words


def _option_with(option: str, value: str) -> list[str]:
    return [f"{option}={value}"] if value.startswith("-") else [option, value]


@dataclass(frozen=True, slots=True)
class Retry:
    """Advice to make the same call again with other arguments, and `without` some.

    A value of True belongs to an argument that is switched on; a remark explains the others.
    `instead_of` has the value that a new one replaces, for an argument that may be repeated.
    """

    given: Mapping[str, object] = field(default_factory=dict[str, object])
    without: tuple[str, ...] = ()
    remark: str = ""
    instead_of: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        omitted = [f"omit {_shown(name, '')}" for name in self.without]
        given = [
            _shown(name, "" if value is True else f"{value}") for name, value in self.given.items()
        ]
        return " ".join([*omitted, *given]) + (f"   # {self.remark}" if self.remark else "")

    def renamed(self, names: Mapping[str, str]) -> Retry:
        """Return the advice for a caller that takes arguments under other names."""
        return Retry(
            {names.get(name, name): value for name, value in self.given.items()},
            tuple(names.get(name, name) for name in self.without),
            self.remark,
            {names.get(name, name): value for name, value in self.instead_of.items()},
        )


def _shown(name: str, value: str) -> str:
    return f"`{name}={value}`"
