"""A line of settings as users type it: flags, variables and recipes; parsed and written.

    --xla_gpu_enable_triton_gemm=false NCCL_NVLS_ENABLE=0 fsdp env:MY_OWN_SWITCH=1

The label of a line is a line with the same meaning: whatever a table shows can be typed again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from counterpoint.core import UsageError
from counterpoint.flags.lines.known import (
    OWN_PREFIX,
    is_flag,
    is_variable,
    refuse_bare_flag,
    refuse_unread_variable,
    unread,
)
from counterpoint.flags.lines.source import load_settings
from counterpoint.flags.recipe import recipes
from counterpoint.flags.settings import NAME, Settings
from counterpoint.flags.text import expand_xla_flags, names, parse_xla_flags

EXAMPLE: Final = "write settings such as `--xla_gpu_enable_triton_gemm=false NCCL_NVLS_ENABLE=0`"
_EXAMPLE_FLAG: Final = "xla_gpu_enable_latency_hiding_scheduler=true"
_ASSIGNED: Final = re.compile(r"(?:env:)?[A-Za-z_]\w*=")
_IDLE: Final = ("export", "+")
"""Words that set nothing: of a shell, and between the names of combined recipes."""


@dataclass(frozen=True, slots=True)
class SettingsLine:
    """The settings of a line, and a line with the same settings."""

    settings: Settings
    label: str


def read_line(
    text: str, *, version: str | None = None, chip: str | None = None, bare: bool = False
) -> SettingsLine:
    """Read flags with or without dashes, `NAME=value`, `env:NAME=value`, and recipe names.

    Raise UsageError for a word that is none of these, and for a name that nothing reads. `bare`: no
    recipes.
    """
    try:
        words = shlex.split(text)
    except ValueError as failure:
        raise UsageError(str(failure), next=EXAMPLE) from None
    settings, labels = Settings(), list[str]()
    for word in words:
        if word in _IDLE:
            continue
        if word in recipes() and not bare:
            settings = settings.merged(load_settings(word, version=version, chip=chip))
            labels.append(word)
            continue
        word_settings = _read(word)
        settings = settings.merged(word_settings)
        labels.append(write_line(word_settings))
    if not labels:
        raise UsageError("no settings given", next=EXAMPLE)
    return SettingsLine(settings, " ".join(labels))


def write_line(settings: Settings) -> str:
    """Write settings as a line; compiler options and a layout can't be expressed."""
    flags = [f"--{name}={_quoted(value)}" for name, value in settings.xla]
    variables = [
        f"{'' if is_variable(name) else OWN_PREFIX}{name}={_quoted(value)}"
        for name, value in settings.env
    ]
    return " ".join((*flags, *variables))


def parse_settings(
    flags: Iterable[str] = (), variables: Iterable[str] = (), *, own: bool = True
) -> Settings:
    """Parse `name=value` texts of the command line; dashes before a flag are optional.

    `own`: variables that only the user's program reads are allowed; otherwise they need `env:`.
    """
    xla: list[tuple[str, str]] = []
    for text in flags:
        name, equals, value = text.partition("=")
        name = name.strip().removeprefix("--")
        if not equals or not NAME.fullmatch(name):
            raise UsageError(
                f"--set {text}: not a setting" if text else "--set has an empty value",
                why="a setting is a flag's name, `=` and its value",
                next=f"use --set {_EXAMPLE_FLAG}",
            )
        if is_variable(name):
            raise UsageError(
                f"--set {text}: {name} is a variable, not a flag of XLA",
                next=f"use --env {text}",
            )
        if not is_flag(name):
            raise unread(name, value)
        xla.append((name, value))
    env: list[tuple[str, str]] = []
    for text in variables:
        bare = text.removeprefix(OWN_PREFIX)
        name, equals, value = bare.partition("=")
        if not NAME.fullmatch(name) or not equals:
            raise UsageError(
                f"--env {text}: not a variable" if text else "--env has an empty value",
                why="a variable is a name, `=` and its value",
                next="use --env NCCL_DEBUG=INFO",
            )
        if name == "XLA_FLAGS":
            where = "--env XLA_FLAGS"
            xla.extend(parse_xla_flags(expand_xla_flags(value, where=where), where=where))
            continue
        if bare == text:
            (refuse_bare_flag if own else refuse_unread_variable)(name, value)
        env.append((name, value))
    return Settings(tuple(xla), tuple(env))


def _wrong(name: str) -> str:
    return f"invalid variable name {name!r}" if name else "no name before ="


def _read(word: str) -> Settings:
    if word.startswith(("-", "xla_")):
        return parse_settings([_flag(word)])
    if word.startswith(OWN_PREFIX) and not _ASSIGNED.match(word):
        name, equals, _ = word.removeprefix(OWN_PREFIX).partition("=")
        raise UsageError(
            f"{word}: {_wrong(name) if equals else 'it has no `=` and no value'}",
            why="a variable's name has letters, digits and _, and does not begin with a digit",
            next="env:NAME=value",
        )
    if not _ASSIGNED.match(word):
        raise UsageError(
            f"{word} is neither a flag nor a variable",
            why="write --xla_...=value, NAME=value, or the name of a recipe",
            next=EXAMPLE,
        )
    return parse_settings((), [word], own=False)


def _flag(word: str) -> str:
    name, equals, value = word.lstrip("-").partition("=")
    if re.search(r"[, ](--)?xla_\w+=", value):
        raise UsageError(
            "several flags in one word",
            why=f"the value of {name} would be {value}",
            next="put spaces between flags",
        )
    known = names().get(name)
    if not equals and known is not None and known.type != "bool":
        raise UsageError(
            f"--{name} has no value",
            why=f"it is of type {known.type}",
            next=f"write --{name}=VALUE, with a value of that type",
        )
    return f"{name}={value}" if equals else f"{name}=true"


def _quoted(value: str) -> str:
    return shlex.quote(value) if value else ""
