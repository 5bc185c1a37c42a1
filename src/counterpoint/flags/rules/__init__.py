"""The rules of `flags check`: one module each, named like the rule, and listed here by code.

A rule's docstring is its documentation (core/rules.py): `counterpoint explain-code` and
docs/rules are made from it, and its example is run by a test. To add a rule: write the module, add
it to RULES, test one text that fires and one that does not, run `make docs`.

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
    compile_option_as_flag,
    compiler_disagrees,
    contradicting_variables,
    contradiction,
    crashing_value,
    debugging_left_on,
    default_anyway,
    default_variable,
    deprecated_variable,
    foreign_flag,
    given_twice,
    idle_scheduler_flag,
    legacy_flag,
    libtpu_flag,
    loop_memory,
    max_connections,
    missing_blank,
    missing_file,
    missing_partner,
    needs_shell,
    newer_flag,
    no_op_flag,
    not_a_compile_option,
    not_for_this_chip,
    overwritten,
    pipelined_p2p_decomposed,
    process_option,
    quoted_value,
    removed_flag,
    renamed_flag,
    statistics_option,
    stray_word,
    too_late,
    trainer_option,
    unknown_flag,
    unknown_pass,
    unknown_value,
    unmodeled_collectives,
    unread_profile,
    unread_variable,
    user_buffers,
    wrong_dash,
    wrong_type,
)


class LintRule(DocumentedRule, Protocol):
    """The interface of a rule's module. NAME is the module's name with dashes.

    NAME reads as `allow NAME`. SINCE is the release of Counterpoint that introduced the rule.
    """

    def check(self, case: LintContext) -> Iterator[Remark]:
        """Yield remarks on the settings, independently of other rules."""
        ...


RULES: Final[tuple[LintRule, ...]] = (
    unknown_flag,
    removed_flag,
    renamed_flag,
    newer_flag,
    legacy_flag,
    no_op_flag,
    foreign_flag,
    not_a_compile_option,
    process_option,
    compile_option_as_flag,
    statistics_option,
    libtpu_flag,
    compiler_disagrees,
    wrong_type,
    unknown_value,
    crashing_value,
    quoted_value,
    given_twice,
    stray_word,
    wrong_dash,
    needs_shell,
    missing_file,
    overwritten,
    too_late,
    missing_blank,
    default_anyway,
    idle_scheduler_flag,
    missing_partner,
    combine_threshold,
    unknown_pass,
    not_for_this_chip,
    user_buffers,
    loop_memory,
    command_buffers_in_profile,
    unmodeled_collectives,
    pipelined_p2p_decomposed,
    unread_profile,
    contradiction,
    auto_pgle_trap,
    debugging_left_on,
    unread_variable,
    deprecated_variable,
    bad_variable_value,
    default_variable,
    max_connections,
    contradicting_variables,
    trainer_option,
)
"""All rules, by code."""
