"""Options of commands of Counterpoint, as words of a command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

__all__ = ["given_words", "option_of", "option_words"]


def option_of(argument: str) -> str:
    """Return the option that takes an argument on the command line.

    The name of an argument may end with its unit, as `timeout_s`, or tell it from a word of Python,
    as `from_`.
    """
    return f"--{argument.removesuffix('_s').strip('_').replace('_', '-')}"


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


def given_words(group: Any) -> list[str]:  # noqa: ANN401 - any dataclass of options
    """Return the options of a group that differ from their defaults, as words of a command line."""
    values = {each.name: getattr(group, each.name) for each in fields(group)}
    defaults = {each.name: each.default for each in fields(group)}
    return option_words({name: it for name, it in values.items() if it != defaults[name]})


def _option_with(option: str, value: str) -> list[str]:
    return [f"{option}={value}"] if value.startswith("-") else [option, value]
