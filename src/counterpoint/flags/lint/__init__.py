"""The context of rules, and their remarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.lint.context import Remark as Remark
    from counterpoint.flags.lint.context import Severity as Severity
    from counterpoint.flags.lint.context import advice_of as advice_of
    from counterpoint.flags.lint.context import lost_flags_text as lost_flags_text

__getattr__ = lazy(
    __name__,
    {
        "Remark": "counterpoint.flags.lint.context",
        "Severity": "counterpoint.flags.lint.context",
        "advice_of": "counterpoint.flags.lint.context",
        "lost_flags_text": "counterpoint.flags.lint.context",
    },
)
