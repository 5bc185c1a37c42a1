"""Blemish: characters that were to separate or quote a value, and became part of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.lint.spelling import refusal
from counterpoint.flags.written import Given
from counterpoint.flags.xla_flags import Pairs

_QUOTED: Final = re.compile(r"""(['"`])(.*)\1|['"`](?P<half>[^'"`]+)|(?P<other>[^'"`]+)['"`]""")
_NEXT_FLAG: Final = re.compile(r"[,;]\s*--(?=\w+(=|$))")
_TEXTS: Final = ("string", "strings", "map")


@dataclass(frozen=True, slots=True)
class Blemish:
    """What is wrong, and the settings that were meant."""

    what: str
    instead: Pairs


def blemish(flag: Flag, one: Given) -> Blemish | None:
    """What spoils a value; None for a clean one, and for one that would be wrong without it too."""
    value = one.value
    if not value:
        return None
    parts = _NEXT_FLAG.split(value)[::2]
    if len(parts) > 1:
        others = (part.partition("=") for part in parts[1:])
        pairs = ((name, text if equals else "true") for name, equals, text in others)
        what = "a comma between flags, where a space belongs,"
        return Blemish(what, ((one.name, parts[0]), *pairs))
    clean = _clean(value, text=flag.type in _TEXTS)
    if clean == value or refusal(flag, clean, one.channel) is not None:
        return None
    if flag.type == "enums" and refusal(flag, value, one.channel) is None:
        return None  # XLA's parser of lists drops an empty entry
    last = value[-1]
    what = f"{last!r} at the end" if last in ",;" else "quotes that became part of the value,"
    return Blemish(what, ((one.name, clean),))


def _clean(value: str, *, text: bool) -> str:
    """Without a comma or semicolon at its end, and without quotes around it."""
    bare = value if text else value.rstrip(",;")
    match = _QUOTED.fullmatch(bare)
    if match is None or (text and match[1] is None):
        return bare
    return match[2] or match["half"] or match["other"] or ""
