"""The rules of `flags check`: one module each, named as the rule is, and listed here by code.

A rule's docstring is its documentation (core/rulebook.py): `counterpoint explain-code` and
docs/rules are made of it, and its example is run by a test. To add a rule: write the module, add
it to RULES, test one text that fires and one that does not, run `make docs`.

    FLAG1xx  does the name exist, for this release and in this channel
    FLAG2xx  values, text, and what is given twice
    FLAG3xx  effect: default anyway, ignored
    FLAG4xx  settings that change each other
    FLAG5xx  environment variables
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from counterpoint.core.rulebook import Documented
from counterpoint.flags.case import Case
from counterpoint.flags.remark import Remark


class Rule(Documented, Protocol):
    """What a rule's module has. NAME is the module's name with dashes; it reads as `allow NAME`.

    SINCE is the release of Counterpoint that brought it.
    """

    def check(self, case: Case) -> Iterator[Remark]:
        """What there is to say of the settings; a rule knows nothing of the others."""
        ...


RULES: Final[tuple[Rule, ...]] = ()
"""All rules, by code."""
