"""The rules of `flags check`: rows of the table in rows.py, and modules, named like the rule.

A rule that says the same of each setting to which it applies is a row, and its documentation is
pages/CODE.md. A rule that does more is a module with a docstring. Either text
(core/rules.py) is what `counterpoint explain-code` and docs/rules are made from, and its example is
run by a test. To add a rule: write the row and its page, or the module and its entry in MODULES;
test one text that fires and one that does not; run `make docs`.

FLAG1xx  whether the name exists, for this release and in this channel
FLAG2xx  values, text, and repeated settings
FLAG3xx  effect: default anyway, ignored
FLAG4xx  settings that affect each other
FLAG5xx  environment variables
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from counterpoint.core.rules import DocumentedRule
from counterpoint.flags.lint import LintContext, Remark
from counterpoint.flags.rules import (
    auto_pgle_trap,
    bad_variable_value,
    combine_threshold,
    command_buffers_in_profile,
    compiler_disagrees,
    contradicting_variables,
    contradiction,
    crashing_value,
    debugging_left_on,
    foreign_flag,
    given_twice,
    idle_scheduler_flag,
    legacy_flag,
    libtpu_flag,
    loop_memory,
    missing_blank,
    missing_file,
    missing_partner,
    not_for_this_chip,
    quoted_value,
    trainer_option,
    unknown_flag,
    unknown_pass,
    unknown_value,
    unread_profile,
    unread_variable,
    user_buffers,
    wrong_type,
)
from counterpoint.flags.rules.rows import ROWS


class LintRule(DocumentedRule, Protocol):
    """The interface of a rule, a row or a module. NAME is the module's name with dashes.

    NAME reads as `allow NAME`. SINCE is the release of Counterpoint that introduced the rule.
    """

    def check(self, case: LintContext) -> Iterator[Remark]:
        """Yield remarks on the settings, independently of other rules."""
        ...


MODULES: Final[tuple[LintRule, ...]] = (
    unknown_flag,
    legacy_flag,
    foreign_flag,
    libtpu_flag,
    compiler_disagrees,
    wrong_type,
    unknown_value,
    crashing_value,
    quoted_value,
    given_twice,
    missing_file,
    missing_blank,
    idle_scheduler_flag,
    missing_partner,
    combine_threshold,
    unknown_pass,
    not_for_this_chip,
    user_buffers,
    loop_memory,
    command_buffers_in_profile,
    unread_profile,
    contradiction,
    auto_pgle_trap,
    debugging_left_on,
    unread_variable,
    bad_variable_value,
    contradicting_variables,
    trainer_option,
)
"""The rules that are modules, by code."""

RULES: Final[tuple[LintRule, ...]] = tuple(sorted((*MODULES, *ROWS), key=lambda rule: rule.CODE))
"""All rules, by code."""
