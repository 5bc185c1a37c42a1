"""All checks on one host's Facts, or those that were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from counterpoint.core.errors import UsageError
from counterpoint.core.rulebook import near_codes
from counterpoint.doctor.checks import CHECKS, Check
from counterpoint.doctor.facts import Facts
from counterpoint.doctor.verdict import Verdict


def examine(facts: Facts, checks: Sequence[Check] = CHECKS) -> tuple[Verdict, ...]:
    """What the checks say, in their order."""
    return tuple(_stamped(facts, checks))


def chosen(only: Sequence[str], skip: Sequence[str]) -> tuple[Check, ...]:
    """The checks of these names or codes, or how codes begin; without `only` all, less `skip`."""
    wanted = _matching(only, "--only") if only else CHECKS
    unwanted = _matching(skip, "--skip")
    return tuple(check for check in wanted if check not in unwanted)


def _stamped(facts: Facts, checks: Sequence[Check]) -> Iterator[Verdict]:
    for check in checks:
        for verdict in check.check(facts):
            yield replace(verdict, code=check.CODE, name=check.NAME)


def _matching(texts: Sequence[str], option: str) -> tuple[Check, ...]:
    found: list[Check] = []
    for text in (part.strip() for one in texts for part in one.split(",")):
        wanted = text.lower()
        matching = [
            check
            for check in CHECKS
            if wanted == check.NAME or (wanted and check.CODE.lower().startswith(wanted))
        ]
        if not matching:
            near = near_codes(CHECKS, text)
            raise UsageError(
                f"{option} {text}: no such check",
                why="a check has a name and a code, as `counterpoint doctor` prints them",
                next=f"{option} {near[0]}" if near else "counterpoint explain-code",
            )
        found += matching
    return tuple(check for check in CHECKS if check in found)
