"""Lists of all formats in messages: golden texts leave them out, so that a new one renews none."""

from __future__ import annotations

from counterpoint.timeline.formats import endings_in_zip, kinds_in_directory, supported_formats


def without_formats(text: str) -> str:
    """The text, in which lists of all formats are named only."""
    lists = {
        supported_formats(): "ALL FORMATS",
        listed_in_directory(): "ALL ENDINGS",
        listed_in_zip(): "ALL ENDINGS IN A ZIP",
    }
    for listed, shown in lists.items():
        text = text.replace(listed, shown)
    return text


def listed_in_directory() -> str:
    return ", ".join(ending for it in kinds_in_directory() for ending in it.endings)


def listed_in_zip() -> str:
    return ", ".join(ending for endings in endings_in_zip() for ending in endings)
