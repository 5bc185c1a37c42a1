"""Printable: text that may come from files, made safe for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text on one line without control characters, which are shown as escapes."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
