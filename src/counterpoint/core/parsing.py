"""Parses TOML and JSON from any source.

Text that can't be parsed raises one kind of error. Both parsers recurse for each level, and tomllib
takes time quadratic in the dots of a key. So depth is an error of the text (a ValueError), never
one of the interpreter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

__all__ = ["parse_json", "parse_toml"]

_LARGEST: Final = 1 << 22
"""Maximum number of characters, beyond any handwritten file; tomllib takes seconds for them."""
_DEEPEST: Final = 64
_DEEP_KEY: Final = re.compile(
    r"""(?<![^\s.=\[\],{"'])"""
    r"""(?:(?:"[^"\n]*+"|'[^'\n]*+'|[^\s.=\[\],{"']++)[ \t]*+\.[ \t]*+){"""
    f"{_DEEPEST + 1}}}"
)


class TooDeepError(ValueError):
    """Raised for more levels, or more text, than the parsers can handle."""


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text; raise a ValueError if it is invalid."""
    if len(text) > _LARGEST:
        raise TooDeepError(f"it has more than {_LARGEST >> 20} MiB")
    if deep := _DEEP_KEY.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise TooDeepError(f"a key with more than {_DEEPEST} dots (at line {line})")

    import tomllib

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
    """Parse a JSON text; raise a ValueError if it is invalid.

    `pairs` builds an object from its pairs.
    """
    try:
        return json.loads(text, object_pairs_hook=pairs, strict=strict)
    except RecursionError:
        raise TooDeepError("tables or lists are nested too deep") from None
