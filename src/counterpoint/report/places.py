"""Names and places made short: the user's file rather than the whole path to it."""

from __future__ import annotations

from typing import Final

ELLIPSIS: Final = "…"

_PARTS: Final = 3


def short_path(place: str, parts: int = _PARTS) -> str:
    """The last parts of a path: `praxis/layers/attentions.py:777`."""
    return "/".join([part for part in place.split("/") if part][-parts:])


def without_middle(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """The text with its middle left out: an op's name tells by its beginning and its number."""
    if len(text) <= width:
        return text
    room = max(width - len(ellipsis), 0)
    tail = room // 2
    return text[: room - tail] + ellipsis + text[len(text) - tail :]


def without_beginning(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """The end of the text, from a whole part of its path on where one fits: it says most."""
    if len(text) <= width:
        return text
    parts = text.split("/")
    for first in range(1, len(parts)):
        rest = "/".join(parts[first:])
        if len(rest) <= width:
            return rest
    return ellipsis + text[len(text) - max(width - len(ellipsis), 0) :]
