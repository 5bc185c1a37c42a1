"""The pages of docs/rules: one per rule and an index, made from the rules' docstrings and pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from counterpoint.core.rules import DocumentedRule, RulePage, read_page

_INTRODUCTION: Final = """\
The findings of `counterpoint flags check` (FLAG), `explain` (STEP) and `doctor` (DOC).
`counterpoint explain-code CODE` prints the same pages. They are made from the rules' docstrings
and `src/counterpoint/flags/rules/pages`: to change a page, change it there and run `make docs`."""


def rule_pages(rules: Sequence[DocumentedRule]) -> Mapping[str, str]:
    """The files of docs/rules, by name."""
    pages = [read_page(rule) for rule in rules]
    files = {f"{page.code}.md": as_markdown(page) for page in pages}
    return {"README.md": index_markdown("Rules", _INTRODUCTION, pages), **files}


def as_markdown(page: RulePage) -> str:
    """The page as a file of the documentation."""
    parts = [f"# {page.code}: {page.title}", f"`{page.name}`, since {page.since}"]
    for heading, body in page.sections.items():
        parts += [f"## {heading}", body]
    return "\n\n".join(parts) + "\n"


def index_markdown(title: str, introduction: str, pages: Iterable[RulePage]) -> str:
    """A list of all pages, each with a link to its file."""
    rows = [f"| [{page.code}]({page.code}.md) | `{page.name}` | {page.title} |" for page in pages]
    table = ["| code | name | what it finds |", "|---|---|---|", *rows]
    return f"# {title}\n\n{introduction}\n\n" + "\n".join(table) + "\n"
