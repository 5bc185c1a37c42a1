"""`counterpoint explain-code`: what a code stands for."""

from __future__ import annotations

import json as encoder
import sys
from typing import Annotated, Final

from cyclopts import Parameter

from counterpoint.core.errors import UsageError
from counterpoint.core.rulebook import Documented, as_text, find_rule, near_codes, read_page
from counterpoint.diagnose.rules import RULES as STEP_RULES
from counterpoint.doctor.checks import CHECKS
from counterpoint.doctor.cluster.merged import COMPARISONS
from counterpoint.flags.rules import RULES as FLAG_RULES

SCHEMA = "counterpoint.explain-code/1"
RULES: Final[tuple[Documented, ...]] = (*FLAG_RULES, *STEP_RULES, *CHECKS, *COMPARISONS)
"""Every rule of every command."""


def explain_code(
    code: str | None = None,
    *,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Say what a code stands for: what was found, why it matters, how to mend it.

    Args:
        code: Of `explain` (STEP101), `flags check` (FLAG102) or `doctor` (DOC101), or a rule's
            name; without one all are listed.
        json: Print it as JSON.
    """
    if code is None:
        pages = [read_page(rule) for rule in RULES]
    else:
        rule = find_rule(RULES, code)
        if rule is None:
            near = ", ".join(near_codes(RULES, code))
            raise UsageError(
                f"{code}: no such code",
                why=f"near it: {near}" if near else "codes are FLAG, STEP or DOC and three digits",
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
        sys.stdout.write(encoder.dumps({"schema": SCHEMA, "rules": rules}, indent=2) + "\n")
    elif code is None:
        for page in pages:
            print(f"{page.code}  {page.name:<24}  {page.title}")
    else:
        print(as_text(pages[0]), end="")
