"""Releases in pages that are written by hand: `0.7.2<!--+scheduler-by-default-->`.

`make docs` writes the release that was observed (counterpoint.flags.observed) in front of the mark,
and a test compares, so that no page says another release than the compilers do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from counterpoint.flags.observed import boundary

_MARKED: Final = re.compile(r"\d+(?:\.\d+)*(?=<!--([+-][\w-]+)-->)")


def with_marked_releases(text: str) -> str:
    """The page, with the release of each mark."""
    return _MARKED.sub(lambda found: boundary(found[1]), text)


def marked_pages(docs: Path) -> Mapping[str, str]:
    """The pages of docs that have marks, by their paths within it, as they have to be."""
    found: dict[str, str] = {}
    for page in sorted(docs.rglob("*.md")):
        text = page.read_text("utf-8")
        if _MARKED.search(text):
            found[page.relative_to(docs).as_posix()] = with_marked_releases(text)
    return found
