"""Names and places made short: the user's file rather than the whole path to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

ELLIPSIS: Final = "…"

_PARTS: Final = 3


def short_path(place: str, parts: int = _PARTS) -> str:
    """The last parts of a path: `praxis/layers/attentions.py:777`."""
    return "/".join([part for part in place.split("/") if part][-parts:])


def unlike_paths(places: Sequence[str]) -> list[str]:
    """Each as short as `short_path`, with more of its parts where others end alike."""
    shown = {place: short_path(place) for place in places}
    grown, parts = shown, _PARTS
    while grown:
        longer = [it for same in _alike(grown) for it in same if it.count("/") >= parts]
        parts += 1
        grown = {place: short_path(place, parts) for place in longer}
        shown |= grown
    return [shown[place] for place in places]


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


def without_end(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """The beginning of a sentence."""
    if len(text) <= width:
        return text
    return text[: max(width - len(ellipsis), 0)].rstrip(" ,;:") + ellipsis


def distinct(
    texts: Sequence[str],
    width: int,
    ellipsis: str = ELLIPSIS,
    cut: Callable[[str, int, str], str] = without_middle,
) -> list[str]:
    """The texts made short in such a way that different texts still look different.

    Those that a plain cut would make alike are cut around the place where they begin to differ; if
    that does not tell them apart, they stay whole.
    """
    short = {text: cut(text, width, ellipsis) for text in texts}
    for alike in _alike(short):
        begin = _shared(min(alike), max(alike))
        short |= {text: _around(text, begin, width, ellipsis) for text in alike}
    short |= {text: text for alike in _alike(short) for text in alike}
    return [short[text] for text in texts]


def _alike(short: Mapping[str, str]) -> Iterator[list[str]]:
    """Texts that became the same."""
    by_short: dict[str, list[str]] = {}
    for text, became in short.items():
        by_short.setdefault(became, []).append(text)
    yield from (texts for texts in by_short.values() if len(texts) > 1)


def _shared(first: str, last: str) -> int:
    """The characters at which two texts begin alike; of the first and last in order, all do."""
    pairs = enumerate(zip(first, last, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(last)))


def _around(text: str, begin: int, width: int, ellipsis: str) -> str:
    """The beginning of a text, and what stands from a place on."""
    head = width // 3
    if begin <= head or len(text) <= width:
        return text if len(text) <= width else text[: width - len(ellipsis)] + ellipsis
    start = min(begin - 1, len(text) - (width - head - len(ellipsis)))
    told = text[:head] + ellipsis + text[start:]
    return told if len(told) <= width else told[: width - len(ellipsis)] + ellipsis
