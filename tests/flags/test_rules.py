"""Each rule says on its page what it does, and does it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from counterpoint.core.rules import FencedBlock, read_page
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.lint import LintContext, Remark
from counterpoint.flags.parse.source import read_text
from counterpoint.flags.rules import MODULES, RULES, LintRule
from counterpoint.flags.rules.rows import ROWS

SUFFIXES = {"sh": ".sh", "python": ".py", "yaml": ".yaml", "toml": ".toml", "flags": ".flags"}


def remarks_on(block: FencedBlock, rule: LintRule) -> list[Remark]:
    """What a rule says of a fenced block of its own documentation."""
    written = read_text(block.text, f"example{SUFFIXES[block.language]}")
    refused = block.options.get("refused")
    case = LintContext(
        written=written,
        release=release(block.options.get("jaxlib")),
        chip=block.options.get("chip"),
        profiling="profiling" in block.options,
        refused={one: "refused" for one in written.given if one.text == refused},
    )
    return list(rule.check(case))


@pytest.mark.parametrize("listed", [MODULES, ROWS], ids=["modules", "rows"])
def test_rules_are_listed_by_code(listed: Sequence[LintRule]) -> None:
    assert [rule.CODE for rule in listed] == sorted(rule.CODE for rule in listed)


rules = pytest.mark.parametrize("rule", RULES, ids=[rule.CODE for rule in RULES])


@rules
def test_the_example_of_a_rule_fires_and_its_fix_does_not(rule: LintRule) -> None:
    page = read_page(rule)
    examples = page.blocks("Example")
    assert examples, "no example"
    for block in examples:
        assert {one.code for one in remarks_on(block, rule)} == {rule.CODE}, block.text
    for block in page.blocks("Fix"):
        assert remarks_on(block, rule) == [], block.text
