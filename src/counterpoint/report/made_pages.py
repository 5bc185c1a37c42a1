"""Made pages: what of docs/ is made from the catalogue, the recipes and the rules, never by hand.

    make docs        (python -m counterpoint.report.made_pages docs)

A test holds the files to what is made.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from counterpoint.report.recipes_of_others import recipes_of_others
from counterpoint.report.rules_pages import RULES, rules_pages
from counterpoint.report.web_flags import web_flags_markdown


def made_pages() -> Mapping[str, str]:
    """All of them, by their paths within docs."""
    rules = {f"rules/{name}": text for name, text in rules_pages(RULES).items()}
    return {
        **rules,
        "flags-from-the-web.md": web_flags_markdown(),
        "recipes-of-others.md": recipes_of_others(),
    }


def write_pages(docs: Path) -> None:
    """Write them all, and remove pages of rules that are no more."""
    pages = made_pages()
    for old in (docs / "rules").glob("*.md"):
        if f"rules/{old.name}" not in pages:
            old.unlink()
    for path, text in pages.items():
        (docs / path).parent.mkdir(parents=True, exist_ok=True)
        (docs / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
