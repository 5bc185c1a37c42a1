"""`counterpoint explain-code`: the pages of all rules. It loads the rules of three rooms."""

from __future__ import annotations

import json as encoder
from typing import Final

from counterpoint.cli.printing import say_result, write_file
from counterpoint.core import UsageError
from counterpoint.core.rules import DocumentedRule, as_text, find_rule, read_page, similar_codes
from counterpoint.diagnose.rules import RULES as STEP_RULES
from counterpoint.doctor import hosts_differ
from counterpoint.doctor.checks import CHECKS
from counterpoint.flags.rules import RULES as FLAG_RULES

SCHEMA = "counterpoint.explain-code/1"
RULES: Final[tuple[DocumentedRule, ...]] = (*FLAG_RULES, *STEP_RULES, *CHECKS, hosts_differ)
"""All rules of all commands."""


def explain_code(
    code: str | None = None,
    *,
    json: bool = False,
) -> None:
    """Explain a rule: what it finds, why it matters, and how to fix it.

    Args:
        code: A code of `explain` (STEP101), `flags check` (FLAG102) or `doctor` (DOC101), or the
            name of a rule; by default all rules are listed.
        json: Print it as JSON.
    """
    if code is None:
        pages = [read_page(rule) for rule in RULES]
    else:
        rule = find_rule(RULES, code)
        if rule is None:
            near = ", ".join(similar_codes(RULES, code))
            raise UsageError(
                f"{code}: unknown code",
                why=f"similar: {near}" if near else "codes are FLAG, STEP or DOC and three digits",
                next="counterpoint explain-code",
            )
        pages = [read_page(rule)]
    if json:
        rules = [
            {
                "code": page.code,
                "name": page.name,
                "since": page.since,
                "title": page.title,
                "sections": dict(page.sections),
            }
            for page in pages
        ]
        write_file(encoder.dumps({"schema": SCHEMA, "rules": rules}, indent=2) + "\n")
    elif code is None:
        for page in pages:
            say_result(f"{page.code}  {page.name:<24}  {page.title}")
    else:
        write_file(as_text(pages[0]))
