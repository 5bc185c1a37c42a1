"""Makes text from files safe to print.

Names of ops, hosts and files come from other programs. A terminal acts on control characters in
them: it changes colors or its title, or shows words in another order. They are shown as escapes,
as are characters that look like nothing, and bytes that are not text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["counted_noun", "printable", "printable_lines", "some"]

_LINES: Final = "\n\t"
_WITHOUT_LINES: Final = str.maketrans("", "", _LINES)


def printable(text: str) -> str:
    """Return the text on one line, with control characters shown as escapes."""
    return text if text.isprintable() else "".join(map(_shown, text))


def printable_lines(text: str) -> str:
    """Return lines of text; ends of lines and tabs stay as they are."""
    if text.translate(_WITHOUT_LINES).isprintable():
        return text
    return "".join(sign if sign in _LINES else _shown(sign) for sign in text)


def counted_noun(number: int, one: str) -> str:
    """Format a count with its noun: `1 trial`, `7 trials`."""
    return f"{number:,} {one}{'s' * (number != 1)}"


def some(texts: Sequence[str], limit: int, between: str = ", ") -> str:
    """Return the first texts, and how many more there are: `a, b and 3 more`."""
    more = len(texts) - limit
    return between.join(texts[:limit]) + (f" and {more:,} more" if more > 0 else "")


def _shown(sign: str) -> str:
    if sign.isprintable():
        return sign
    return sign.encode("unicode_escape").decode()
