"""The reference pages of JSON output, as tables."""

from __future__ import annotations

import re
from pathlib import Path


def documented(page: Path) -> dict[str, dict[str, str]]:
    """Return the tables of a page: section, key, type."""
    sections: dict[str, dict[str, str]] = {}
    section = ""
    for line in page.read_text().splitlines():
        if line.startswith("## "):
            section = "" if "`" not in line else line.strip("# `")
        elif row := re.match(r"\| `(\w+)` \| ([^|]+) \|", line):
            sections.setdefault(section, {})[row[1]] = row[2]
    return sections
