"""Golden texts of many cases in one file, each under its name."""

from __future__ import annotations

from collections.abc import Mapping


def cases(texts: Mapping[str, str]) -> str:
    """One document: a heading for each case, and what is printed there."""
    return "\n".join(f"## {name}\n\n{text.rstrip()}\n" for name, text in texts.items())
