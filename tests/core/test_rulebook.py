"""A rule's docstring or file as a page, and how a rule is found."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from counterpoint.core.rules import SECTIONS, as_text, find_rule, read_page, similar_codes

BODY = "\n\n".join(f"## {heading}\n\nText on {heading}." for heading in SECTIONS)
EXAMPLE = "Text on Example.\n\n```sh chip=A100 profiling\nexport A=1\n```"


@dataclass(frozen=True)
class Rule:
    CODE: str = "FLAG101"
    NAME: str = "unknown-flag"
    SINCE: str = "0.1"
    __doc__: str | None = f"Of\ntwo lines.\n\n{BODY}".replace("Text on Example.", EXAMPLE)


def test_a_docstring_is_a_title_and_sections_with_blocks() -> None:
    page = read_page(Rule())
    assert page.title == "Of two lines."
    assert tuple(page.sections) == SECTIONS
    (block,) = page.blocks("Example")
    assert (block.language, block.text) == ("sh", "export A=1\n")
    assert block.options == {"chip": "A100", "profiling": "true"}
    assert page.blocks("Fix") == ()


@dataclass(frozen=True)
class RowOfATable(Rule):
    """Not the page of the rule."""

    @property
    def page(self) -> str:
        return f"Of a file.\n\n{BODY}\n"


def test_a_rule_with_a_page_is_documented_by_it() -> None:
    assert read_page(RowOfATable()).title == "Of a file."


def test_a_page_is_drawn_for_a_terminal() -> None:
    page = read_page(Rule())
    text = as_text(page)
    assert text.startswith("FLAG101 unknown-flag (since 0.1)\n\nOf two lines.\n")
    assert "\nExample\n-------\nText on Example.\n\n    export A=1\n" in text


@pytest.mark.parametrize(
    "doc",
    [None, "", "A title", f"A title\n\n{BODY}\n\n## More\n\nText", BODY, BODY.replace("Text", "")],
    ids=["none", "empty", "title", "more", "untitled", "hollow"],
)
def test_another_shape_is_the_authors_error(doc: str | None) -> None:
    rule = Rule()
    object.__setattr__(rule, "__doc__", doc)
    with pytest.raises(ValueError, match="FLAG101"):
        read_page(rule)


def test_a_rule_is_found_by_code_and_name_or_has_near_ones() -> None:
    rules = (Rule(), Rule(CODE="FLAG205", NAME="given-twice"))
    assert find_rule(rules, "flag205") is rules[1]
    assert find_rule(rules, "Given-Twice") is rules[1]
    assert find_rule(rules, "FLAG999") is None
    assert similar_codes(rules, "FLAG204")[0] == "FLAG205"
    assert similar_codes(rules, "twice") == ("FLAG205",)
    assert similar_codes(rules, "zzz") == ()
