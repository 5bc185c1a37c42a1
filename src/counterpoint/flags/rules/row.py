"""Row: a rule that is one entry of the table in rows.py, with its page in pages/.

A row looks at settings, or at mistakes in how they are written, and says the same of each to which
it applies. A rule that does more is a module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cache
from pathlib import Path
from typing import Final, Generic, TypeVar

from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, remark
from counterpoint.flags.observed import with_releases
from counterpoint.flags.parsed import IssueKind, Occurrence, SyntaxIssue
from counterpoint.flags.settings import Channel

__all__ = [
    "PAGES",
    "Row",
    "compiler_options",
    "compiler_settings",
    "issues",
    "last_of",
    "variables_named",
    "xla_flags",
]

PAGES: Final = Path(__file__).with_name("pages")

Subject = TypeVar("Subject", Occurrence, SyntaxIssue)


def _always(_case: LintContext, _one: object) -> bool:
    return True


@dataclass(frozen=True)
class Row(Generic[Subject]):
    """One rule: a remark on each of what it `looks_at`, where `when` holds.

    What depends on the subject, or on the release and the chip, is a function of the case and it.
    `fix`: Fix() removes the setting; None leaves it.
    """

    CODE: str
    NAME: str
    _: KW_ONLY
    SINCE: str = "0.1"
    looks_at: Callable[[LintContext], Iterable[Subject]]
    when: Callable[[LintContext, Subject], object] = _always
    severity: Severity | Callable[[LintContext, Subject], Severity]
    message: str | Callable[[LintContext, Subject], str]
    advice: str | Callable[[LintContext, Subject], str]
    fix: Fix | Callable[[LintContext, Subject], Fix | None] | None = None

    @property
    def page(self) -> str:
        """Its documentation, with the releases that it names."""
        return _page(self.CODE)

    def check(self, case: LintContext) -> Iterator[Remark]:
        """Yield remarks on the settings, independently of other rules."""
        for one in self.looks_at(case):
            if self.when(case, one):
                yield self._remark(case, one)

    def _remark(self, case: LintContext, one: Subject) -> Remark:
        severity, message, advice, fix = self.severity, self.message, self.advice, self.fix
        return remark(
            self.CODE,
            severity if isinstance(severity, Severity) else severity(case, one),
            one,
            message if isinstance(message, str) else message(case, one),
            advice if isinstance(advice, str) else advice(case, one),
            fix if isinstance(fix, Fix | None) else fix(case, one),
        )


@cache
def _page(code: str) -> str:
    return with_releases((PAGES / f"{code}.md").read_text("utf-8"))


def xla_flags(case: LintContext) -> Iterable[Occurrence]:
    """Return the settings in XLA_FLAGS."""
    return case.xla


def compiler_options(case: LintContext) -> Iterable[Occurrence]:
    """Return the settings in compiler_options."""
    return case.written.through(Channel.COMPILER_OPTIONS)


def compiler_settings(case: LintContext) -> Iterable[Occurrence]:
    """Return the settings in XLA_FLAGS and compiler_options."""
    return case.compiler


def variables_named(name: str) -> Callable[[LintContext], Iterable[Occurrence]]:
    """Look at each setting of an environment variable."""
    return lambda case: [
        one for one in case.written.through(Channel.ENVIRONMENT) if one.name == name
    ]


def last_of(name: str) -> Callable[[LintContext], Iterable[Occurrence]]:
    """Look at the setting of a flag or a variable that counts, if there is one."""
    return lambda case: [one] if (one := case.last(name)) else []


def issues(*kinds: IssueKind) -> Callable[[LintContext], Iterable[SyntaxIssue]]:
    """Look at mistakes of these kinds."""
    return lambda case: [issue for issue in case.written.issues if issue.kind in kinds]
