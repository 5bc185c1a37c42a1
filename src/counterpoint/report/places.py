"""Names and places, shortened: the user's file rather than the whole path to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from counterpoint.core.printable import counted_noun

ELLIPSIS: Final = "…"
_PARTS: Final = 3
_ROUNDS: Final = 8
"""How often texts that are still equal are cut elsewhere."""


def short_path(place: str, parts: int = _PARTS) -> str:
    """Return the last parts of a path: `praxis/layers/attentions.py:777`."""
    return "/".join([part for part in place.split("/") if part][-parts:])


def distinct_paths(places: Sequence[str]) -> list[str]:
    """Return each path as `short_path` does, with more parts if several end alike."""
    shown = {place: short_path(place) for place in places}
    grown, parts = shown, _PARTS
    while grown:
        longer = [place for same in _alike(grown) for place in same if place.count("/") >= parts]
        parts += 1
        grown = {place: short_path(place, parts) for place in longer}
        shown |= grown
    return [shown[place] for place in places]


def place_of_hosts(count: int | None, processes: int) -> str:
    """Return on how many hosts so many profiled processes ran."""
    if count is None:
        many = f"in {processes:,} processes (hosts not recorded)"
        return many if processes > 1 else "(host not recorded)"
    place = f"on {counted_noun(count, 'host')}"
    return place if count == processes else f"in {processes:,} processes {place}"


def without_middle(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """Cut the middle of the text: an op is identified by the start of its name and its number."""
    if len(text) <= width:
        return text
    room = max(width - len(ellipsis), 0)
    tail = room // 2
    return text[: room - tail] + ellipsis + text[len(text) - tail :]


def without_beginning(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """Cut the start of the path, at a separator if possible: the end is the most specific."""
    if len(text) <= width:
        return text
    parts = text.split("/")
    for first in range(1, len(parts)):
        rest = "/".join(parts[first:])
        if len(rest) <= width:
            return rest
    return ellipsis + text[len(text) - max(width - len(ellipsis), 0) :]


def without_end(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """Cut the end of a sentence."""
    if len(text) <= width:
        return text
    return text[: max(width - len(ellipsis), 0)].rstrip(" ,;:") + ellipsis


def distinct(
    texts: Sequence[str],
    width: int,
    ellipsis: str = ELLIPSIS,
    cut: Callable[[str, int, str], str] = without_middle,
) -> list[str]:
    """Return the texts shortened so that different texts still look different.

    Those that a plain cut would make equal are cut around the place where they start to differ;
    those of them that are still equal, around the next. What this does not distinguish is numbered.
    """
    short = {text: cut(text, width, ellipsis) for text in texts}
    for alike in (group for _ in range(_ROUNDS) for group in _alike(short)):
        begin = _shared(min(alike), max(alike))
        short |= {text: _around(text, begin, width, ellipsis) for text in alike}
    for alike in _alike(dict(short)):
        ends = [f" ({number})" for number in range(1, len(alike) + 1)]
        short |= {
            text: cut(text, width - len(end), ellipsis) + end
            for text, end in zip(alike, ends, strict=True)
        }
    short |= {text: text for alike in _alike(short) for text in alike}
    return [short[text] for text in texts]


def _alike(short: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield groups of texts that were shortened to the same text."""
    by_short: dict[str, list[str]] = {}
    for text, shortened in short.items():
        by_short.setdefault(shortened, []).append(text)
    yield from (texts for texts in by_short.values() if len(texts) > 1)


def _shared(first: str, last: str) -> int:
    """Return the length of the common prefix; with the first and last in order, that of all."""
    pairs = enumerate(zip(first, last, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(last)))


def _around(text: str, begin: int, width: int, ellipsis: str) -> str:
    """Return the beginning of a text, and what follows a position."""
    head = width // 3
    if begin <= head or len(text) <= width:
        return text if len(text) <= width else text[: width - len(ellipsis)] + ellipsis
    start = min(begin - 1, len(text) - (width - head - len(ellipsis)))
    cut = text[:head] + ellipsis + text[start:]
    return cut if len(cut) <= width else cut[: width - len(ellipsis)] + ellipsis
