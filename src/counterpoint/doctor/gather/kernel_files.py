"""Files and directories that the kernel shows, as far as they can be read."""

from __future__ import annotations

from pathlib import Path


def text_of(path: Path) -> str | None:
    """Return the text, stripped of surrounding whitespace; None if it can't be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, ValueError):
        return None


def number_of(path: Path) -> int | None:
    """The whole number in a file; None where there is none, or it is below 0 (unknown speeds)."""
    text = text_of(path)
    try:
        value = int(text or "")
    except ValueError:
        return None
    return value if value >= 0 else None


def names_in(path: Path) -> tuple[str, ...]:
    """Return the names in a directory, sorted; empty if it can't be read."""
    try:
        return tuple(sorted(entry.name for entry in path.iterdir()))
    except OSError:
        return ()
