"""Every rule is in its list once, in the order of codes, in a file of its name."""

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
    files = {path.stem for path in Path(package.__path__[0]).glob("*.py")} - {"__init__"}
    listed = {rule.NAME.replace("-", "_"): rule.CODE for rule in rules}
    assert files == set(listed), "each rule is a file of its name, and in the list of its package"


@pytest.mark.parametrize("rule", [rule for _, rules in PACKAGES.values() for rule in rules])
def test_each_rule_has_all_sections(rule: DocumentedRule) -> None:
    assert read_page(rule).title
