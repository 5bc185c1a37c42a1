"""Variant: a name and the Settings it stands for, from what a user writes as a candidate.

    base        --recipe R --set FLAG=V --env K=V       the later has the last word
    candidate   a flag line, a file, a recipe's name    on top of the base

What can't be read is an error before anything is compiled, and so is a name that nothing reads;
which of XLA's flags exist is the compiler's to say, of each candidate alone. The name of a
candidate is a text that stands for the same candidate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.flags import Settings, load_settings, parse_settings
from counterpoint.flags.known import OWN
from counterpoint.flags.line import Line, read_line

_LINE: Final = re.compile(r"\s*(?:-|xla_\w+\b)|(?:^|\s)(?:env:)?[A-Za-z_]\w*=|\s\+\s|\s-")
"""What has one of these is a line of settings; else it is a file, or the name of a recipe."""

_EXAMPLE: Final = "--candidate '--xla_gpu_enable_pipelined_all_gather=true'"
_LONGEST: Final = 60
ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"


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
    line = _read(text, version, chip)
    return Variant(line.label, base.merged(line.settings))


def named_apart(variants: Iterable[Variant]) -> list[Variant]:
    """Each once, where no two share a name."""
    taken: dict[str, int] = {}
    apart: list[Variant] = []
    for one in dict.fromkeys(variants):
        taken[one.name] = taken.get(one.name, 0) + 1
        number = taken[one.name]
        name = one.name if number == 1 else f"{one.name} ({number})"
        apart.append(Variant(name, one.settings))
    return apart


def _read(text: str, version: str | None, chip: str | None) -> Line:
    if not text.strip():
        raise UsageError(
            "--candidate: an empty text",
            why="a candidate is flags in quotes, a file of settings, or a recipe's name",
            next=_EXAMPLE,
        )
    if ELLIPSIS in text:
        raise UsageError(
            f"--candidate {text}: a label that was shortened to fit",
            next="paste the whole one: a pipe and a file have it",
        )
    said = text.lstrip().startswith(OWN) or _LINE.search(text)
    if not said or _is_file(text):
        return Line(load_settings(text, version=version, chip=chip), text)
    try:
        return read_line(text, version=version, chip=chip)
    except UsageError as error:
        what = f"--candidate {_short(text)}: {error.what}"
        raise UsageError(what, why=error.why, next=error.next or _EXAMPLE) from None


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # flags in quotes may be longer than any name
        return False


def _short(text: str) -> str:
    """For an error."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
