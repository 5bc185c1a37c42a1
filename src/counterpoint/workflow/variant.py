"""Variants: Settings to try on a subject, each under the text that names it (`--candidate`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core import UsageError
from counterpoint.flags.lines.known import OWN_PREFIX
from counterpoint.flags.lines.line import SettingsLine, parse_settings, read_line
from counterpoint.flags.lines.source import load_settings
from counterpoint.flags.settings import Settings

_LINE: Final = re.compile(r"\s*(?:-|xla_\w+\b)|(?:^|\s)(?:env:)?[A-Za-z_]\w*=|\s\+\s|\s-")
"""Text with one of these is a line of settings; otherwise it is a file, or the name of a recipe."""

_EXAMPLE: Final = "use --candidate --xla_gpu_enable_pipelined_all_gather=true"
_LONGEST: Final = 60
ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True, slots=True)
class Variant:
    """Settings to try, and their name."""

    name: str
    settings: Settings


@dataclass(frozen=True)
class BaseSettings:
    """The settings that a program is compiled with.

    Args:
        set_: An XLA flag: xla_gpu_...=value. --set xla_gpu_pgle_profile_file_or_directory_path=FILE
            gives the compiler a profile.
        env: A variable: NAME=value. XLA_PYTHON_CLIENT_MEM_FRACTION sets the available memory.
        recipe: A recipe's name, or a file of settings; --set and --env override it.
    """

    set_: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    recipe: tuple[str, ...] = ()

    def read(self, *, version: str | None = None, chip: str | None = None) -> Settings:
        """Return the settings; a recipe's depend on the release of jaxlib and on the chip."""
        return base_settings(self.recipe, self.set_, self.env, version=version, chip=chip)

    def words(self, recipe: str = "--recipe") -> tuple[str, ...]:
        """Return the options as words of a command that has an option of this name for recipes."""
        return (
            *(f"{recipe}={value}" for value in self.recipe),
            *(f"--set={value}" for value in self.set_),
            *(f"--env={value}" for value in self.env),
        )


def base_settings(
    recipes: Sequence[str] = (),
    flags: Sequence[str] = (),
    variables: Sequence[str] = (),
    *,
    version: str | None = None,
    chip: str | None = None,
) -> Settings:
    """Merge recipes and files in their order, then explicit settings."""
    settings = Settings()
    for name in recipes:
        settings = settings.merged(load_settings(name, version=version, chip=chip))
    return settings.merged(parse_settings(flags, variables))


def candidate(
    text: str, base: Settings, *, version: str | None = None, chip: str | None = None
) -> Variant:
    """Return what `--candidate` names, on top of the base.

    The text is a line of flags, a file, or a recipe's name; its settings override the base's. Text
    that can't be read is an error before anything is compiled, and so is a name that nothing reads.
    Which XLA flags exist is decided by the compiler, separately for each candidate. The candidate's
    name is a text that stands for the same candidate.
    """
    line = _read(text, version, chip)
    return Variant(line.label, base.merged(line.settings))


def with_unique_names(variants: Iterable[Variant]) -> list[Variant]:
    """Remove duplicates, and make the names unique."""
    taken: dict[str, int] = {}
    apart: list[Variant] = []
    for variant in dict.fromkeys(variants):
        taken[variant.name] = taken.get(variant.name, 0) + 1
        number = taken[variant.name]
        name = variant.name if number == 1 else f"{variant.name} ({number})"
        apart.append(Variant(name, variant.settings))
    return apart


def _read(text: str, version: str | None, chip: str | None) -> SettingsLine:
    if not text.strip():
        raise UsageError(
            "--candidate: the text is empty",
            why="a candidate is flags in quotes, a file of settings, or a recipe's name",
            next=_EXAMPLE,
        )
    if ELLIPSIS in text:
        raise UsageError(
            f"--candidate {text}: this label was shortened to fit",
            next="paste the full label, which is printed to a pipe or a file",
        )
    is_line = text.lstrip().startswith(OWN_PREFIX) or _LINE.search(text)
    if not is_line or _is_file(text):
        return SettingsLine(load_settings(text, version=version, chip=chip), text)
    try:
        return read_line(text, version=version, chip=chip)
    except UsageError as error:
        what = f"--candidate {_short(text)}: {error.what}"
        raise UsageError(what, why=error.why, next=error.next or _EXAMPLE) from None


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # flags in quotes may be longer than any file name
        return False


def _short(text: str) -> str:
    """Shorten a text for an error message."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
