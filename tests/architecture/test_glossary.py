"""The glossary stays short, in order, and gives each word one meaning."""

from __future__ import annotations

import re
from pathlib import Path

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"


def test_the_glossary_has_at_most_40_words_each_once_and_in_order() -> None:
    words = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", GLOSSARY.read_text("utf-8"), re.MULTILINE)
    names = [name.lower() for name, _ in words]
    assert 10 < len(names) <= 40
    assert names == sorted(set(names))
    assert len({meaning for _, meaning in words}) == len(words)
