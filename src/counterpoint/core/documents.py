"""Texts of TOML and JSON from anybody: what no parser can follow is one error like any other.

Both parsers call themselves for each level, and tomllib takes a time for a key that grows with the
square of its dots. So depth is an error of the text (a ValueError), never one of the interpreter.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Final

_LARGEST: Final = 1 << 22
"""More characters than anybody writes by hand; tomllib takes seconds for them."""
_DEEPEST: Final = 64
_DEEP_KEY: Final = re.compile(
    r"""(?<![^\s.=\[\],{"'])"""
    r"""(?:(?:"[^"\n]*+"|'[^'\n]*+'|[^\s.=\[\],{"']++)[ \t]*+\.[ \t]*+){"""
    f"{_DEEPEST + 1}}}"
)


class TooDeepError(ValueError):
    """More levels, or more text, than is followed."""


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text; a ValueError says what is wrong with it."""
    if len(text) > _LARGEST:
        raise TooDeepError(f"it has more than {_LARGEST >> 20} MiB")
    if deep := _DEEP_KEY.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise TooDeepError(f"a key with more than {_DEEPEST} dots (at line {line})")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise TooDeepError("tables or lists are nested too deep") from None


def parse_json(
    text: str | bytes,
    *,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
    strict: bool = True,
) -> Any:  # noqa: ANN401 - whatever the text holds
    """What a JSON text holds; a ValueError says what is wrong.

    `pairs` makes a table of its pairs.
    """
    try:
        return json.loads(text, object_pairs_hook=pairs, strict=strict)
    except RecursionError:
        raise TooDeepError("tables or lists are nested too deep") from None


_LONGEST: Final = 4  # digits of a number that we have put behind a name; not of a date


def beside(path: Path) -> Path:
    """A path that does not exist: `before-2` beside `before`, `before-3` beside that."""
    stem, _, last = path.name.rpartition("-")
    again = bool(stem) and last.isdecimal() and len(last) < _LONGEST
    stem, first = (stem, int(last) + 1) if again else (path.name, 2)
    names = (path.with_name(f"{stem}-{number}") for number in count(first))
    return next(name for name in names if not name.exists())
