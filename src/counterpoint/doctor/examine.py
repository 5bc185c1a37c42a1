"""Run all checks, or the selected ones, on one host's Facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from counterpoint.core import UsageError
from counterpoint.core.rules import DocumentedRule, similar_codes
from counterpoint.doctor.checks import CHECKS, Check
from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult

Rule = TypeVar("Rule", bound=DocumentedRule)


def run_checks(facts: HostFacts, checks: Sequence[Check] = CHECKS) -> tuple[CheckResult, ...]:
    """Return the verdicts of the checks, in their order."""
    return tuple(_stamped(facts, checks))


def select_rules(
    rules: Sequence[Rule], only: Sequence[str], skip: Sequence[str]
) -> tuple[Rule, ...]:
    """Those of these names or codes, or how codes begin; without `only` all, less `skip`."""
    wanted = _lowered(only)
    unwanted = _lowered(skip)
    return tuple(
        rule for rule in rules if (not only or _named(rule, wanted)) and not _named(rule, unwanted)
    )


def refuse_empty_selection(
    left: Sequence[object], only: Sequence[str], skip: Sequence[str]
) -> None:
    """Raise UsageError if no check is selected; the doctor would report success otherwise."""
    if not left:
        options = [f"--only {','.join(only)}"] * bool(only) + [f"--skip {','.join(skip)}"] * bool(
            skip
        )
        raise UsageError(
            f"{' '.join(options)}: no check is selected",
            why="checks across hosts (DOC6) need --cluster",
            next="counterpoint doctor --only tcp-buffers,DOC5",
        )


def refuse_unknown_rules(
    rules: Sequence[DocumentedRule], texts: Sequence[str], option: str
) -> None:
    """Raise UsageError for a text that names no rule."""
    for word in _words(texts):
        if not any(_named(rule, (word.lower(),)) for rule in rules):
            near = similar_codes(rules, word)
            raise UsageError(
                f"{option} {word}: no such check",
                why=f"the checks are {', '.join(rule.NAME for rule in rules)}",
                next=f"{option} {near[0] if near else rules[0].NAME}",
            )


def _stamped(facts: HostFacts, checks: Sequence[Check]) -> Iterator[CheckResult]:
    for check in checks:
        for verdict in check.check(facts):
            yield replace(verdict, code=check.CODE, name=check.NAME)


def _words(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.strip() for text in texts for part in text.split(","))


def _lowered(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(word.lower() for word in _words(texts))


def _named(rule: DocumentedRule, words: Sequence[str]) -> bool:
    code = rule.CODE.lower()
    return any(word == rule.NAME or (word and code.startswith(word)) for word in words)
