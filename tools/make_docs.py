"""Write what is made from the catalogue, recipes, rules and the types of all JSON.

make docs        (python tools/make_docs.py docs)

renewed = {**marked_pages(docs), **pages_of_fields(docs), **pages_with_tables(docs)}
for path, text in {**pages, **renewed}.items():
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from counterpoint.cli.explain_code import RULES
from json_pages import pages_of_fields
from json_schemas import json_schemas
from made_tables import pages_with_tables
from recipe_pages import recipes_of_others
from release_marks import marked_pages
from rule_pages import rule_pages
from web_flags import web_flags_markdown
from web_records import RECORDS, web_records


@cache
def made_pages() -> Mapping[str, str]:
    """All generated pages, by their paths within docs."""
    rules = {f"rules/{name}": text for name, text in rule_pages(RULES).items()}
    schemas = {f"reference/schema/{name}": text for name, text in json_schemas().items()}
    return {
        **rules,
        **schemas,
        "flags-from-the-web.md": web_flags_markdown(),
        "recipes-of-others.md": recipes_of_others(),
    }


def write_pages(docs: Path) -> None:
    """Write all pages, and remove those of rules and commands that no longer exist."""
    pages = made_pages()
    for old in (*docs.glob("rules/*.md"), *docs.glob("reference/schema/*.json")):
        if str(old.relative_to(docs)) not in pages:
            old.unlink()
    renewed = {**marked_pages(docs), **pages_of_fields(docs), **pages_with_tables(docs)}
    for path, text in {**pages, **renewed}.items():
        (docs / path).parent.mkdir(parents=True, exist_ok=True)
        (docs / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
    Path(RECORDS).write_text(web_records(), encoding="utf-8")
