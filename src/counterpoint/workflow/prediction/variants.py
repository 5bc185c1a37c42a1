"""Variant: a name and the Settings it stands for, from what a user writes as a candidate.

    base        --recipe R --set FLAG=V --env K=V       the later has the last word
    candidate   a flag line, a file, a recipe's name    on top of the base

What can't be read is an error before anything is compiled; whether a flag exists is the compiler's
to say, of each candidate alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.flags import Settings, load_settings, parse_settings

_LINE: Final = re.compile(r"\s*(?:-|xla_\w+\b|(?:export\s+)?[A-Za-z_]\w*=)")
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")
_EXAMPLE: Final = "--candidate '--xla_gpu_enable_pipelined_all_gather=true'"
_LONGEST: Final = 60


@dataclass(frozen=True, slots=True)
class Variant:
    """Settings to try, and what to call them."""

    name: str
    settings: Settings


def base_settings(
    recipes: Sequence[str] = (),
    flags: Sequence[str] = (),
    variables: Sequence[str] = (),
    *,
    version: str | None = None,
    chip: str | None = None,
) -> Settings:
    """Recipes and files in their order, then what is written out."""
    settings = Settings()
    for name in recipes:
        settings = settings.merged(load_settings(name, version=version, chip=chip))
    return settings.merged(parse_settings(flags, variables))


def candidate(
    text: str, base: Settings, *, version: str | None = None, chip: str | None = None
) -> Variant:
    """What `--candidate` names, on top of the base."""
    return Variant(_short(text), base.merged(_read(text, version, chip)))


def named_apart(variants: Iterable[Variant]) -> list[Variant]:
    """The same, where no two share a name."""
    taken: dict[str, int] = {}
    apart: list[Variant] = []
    for one in variants:
        taken[one.name] = taken.get(one.name, 0) + 1
        number = taken[one.name]
        name = one.name if number == 1 else f"{one.name} ({number})"
        apart.append(Variant(name, one.settings))
    return apart


def _read(text: str, version: str | None, chip: str | None) -> Settings:
    if not text.strip():
        raise UsageError(
            "--candidate: an empty text",
            why="a candidate is flags in quotes, a file of settings, or a recipe's name",
            next=_EXAMPLE,
        )
    if _LINE.match(text) and not _is_file(text):
        return _flag_line(text)
    return load_settings(text, version=version, chip=chip)


def _flag_line(line: str) -> Settings:
    """Flags with or without dashes, and `NAME=value` between them for variables."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"--candidate {_short(line)}: {error}", next=_EXAMPLE) from None
    flags: list[str] = []
    variables: list[str] = []
    for word in words:
        if word.startswith(("-", "xla_")):
            flags.append(_flag(word, line))
        elif _ASSIGNED.match(word):
            variables.append(word)
        elif word != "export":
            raise UsageError(
                f"--candidate {_short(line)}: {word} is neither a flag nor a variable",
                why="a flag is --xla_...=value, a variable NAME=value",
                next=_EXAMPLE,
            )
    return parse_settings(flags, variables)


def _flag(word: str, line: str) -> str:
    name, equals, value = word.lstrip("-").partition("=")
    if re.search(r"[, ](--)?xla_\w+=", value):
        raise UsageError(
            f"--candidate {_short(line)}: several flags in one",
            why=f"the value of {name} would be {value}",
            next="put spaces between flags",
        )
    return f"{name}={value}" if equals else f"{name}=true"


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # flags in quotes may be longer than any name
        return False


def _short(text: str) -> str:
    """Words of a flag line without what all flags begin with."""
    shown = " ".join(word.removeprefix("--").removeprefix("xla_gpu_") for word in text.split())
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."
