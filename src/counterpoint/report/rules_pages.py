"""The pages of docs/rules: one per rule, and a list of all, made of the rules' docstrings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from counterpoint.core.rulebook import Documented, as_markdown, index_markdown, read_page
from counterpoint.diagnose.rules import RULES as STEP_RULES
from counterpoint.doctor.checks import CHECKS
from counterpoint.doctor.cluster.merged import COMPARISONS
from counterpoint.flags.rules import RULES as FLAG_RULES

RULES: Final[tuple[Documented, ...]] = (*FLAG_RULES, *STEP_RULES, *CHECKS, *COMPARISONS)
"""All there are."""

_INTRODUCTION: Final = """\
What `counterpoint flags check` (FLAG), `explain` (STEP) and `doctor` (DOC) may say.
`counterpoint explain-code CODE` prints the same pages. They are made
of the rules' docstrings: change those, and run `make docs`."""


def rules_pages(rules: Sequence[Documented]) -> Mapping[str, str]:
    """Files of docs/rules, by name."""
    pages = [read_page(rule) for rule in rules]
    files = {f"{page.code}.md": as_markdown(page) for page in pages}
    return {"README.md": index_markdown("Rules", _INTRODUCTION, pages), **files}
