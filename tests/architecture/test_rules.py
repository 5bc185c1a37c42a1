"""Every rule is in its list once, by code: as a file of its name, or as a row with a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from counterpoint.core.rules import DocumentedRule, read_page
from counterpoint.diagnose import rules as step_rules
from counterpoint.doctor import checks as doctor_checks
from counterpoint.flags import rules as flag_rules

PACKAGES = {
    "STEP": (step_rules, step_rules.RULES),
    "FLAG": (flag_rules, flag_rules.RULES),
    "DOC": (doctor_checks, doctor_checks.CHECKS),
}
NOT_RULES = {"__init__", "row", "rows"}
packages = pytest.mark.parametrize(
    ("prefix", "package", "rules"),
    [(prefix, *found) for prefix, found in PACKAGES.items()],
    ids=PACKAGES,
)


@packages
def test_each_rule_is_listed_once_in_order(
    prefix: str, package: ModuleType, rules: Sequence[DocumentedRule]
) -> None:
    codes = [rule.CODE for rule in rules]
    assert codes == sorted(codes)
    assert len(set(codes)) == len(codes), "two rules have the same code"
    assert all(code.startswith(prefix) for code in codes)
    files = {path.stem for path in Path(package.__path__[0]).glob("*.py")} - NOT_RULES
    modules = {rule.NAME.replace("-", "_") for rule in rules if isinstance(rule, ModuleType)}
    assert files == modules, "each rule is a file of its name, and in the list of its package"
    pages = {path.stem for path in Path(package.__path__[0]).glob("pages/*.md")}
    rows = {rule.CODE for rule in rules if not isinstance(rule, ModuleType)}
    assert pages == rows, "or it is a row of the table of its package, and has a page"


@pytest.mark.parametrize("rule", [rule for _, rules in PACKAGES.values() for rule in rules])
def test_each_rule_has_all_sections(rule: DocumentedRule) -> None:
    assert read_page(rule).title
