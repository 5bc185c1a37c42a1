"""The rules' docstrings as pages of docs/rules."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoint.core.rules import SECTIONS
from rule_pages import rule_pages

BODY = "\n\n".join(f"## {heading}\n\nText on {heading}." for heading in SECTIONS)
EXAMPLE = "Text on Example.\n\n```sh chip=A100 profiling\nexport A=1\n```"


@dataclass(frozen=True)
class Rule:
    CODE: str = "FLAG101"
    NAME: str = "unknown-flag"
    SINCE: str = "0.1"
    __doc__: str | None = f"A title\n\n{BODY}".replace("Text on Example.", EXAMPLE)


def test_a_rule_has_a_page_and_a_row_of_the_index() -> None:
    pages = rule_pages([Rule()])
    assert "## Example\n\nText on Example.\n\n```sh chip=A100" in pages["FLAG101.md"]
    assert "| [FLAG101](FLAG101.md) | `unknown-flag` |" in pages["README.md"]
