"""Rulebook: the documentation of each rule, for people and for programs.

It is the docstring of the rule's module, or the page of a rule that is a row of a table. The first
line is the title. Then come the sections of SECTIONS, each once and in that order, as Markdown;
"False alarms" may precede the last. The documentation, `explain-code` and the tests all use this
text, so they can't disagree. "Example" holds input that triggers the rule, in a fenced block:

    ```sh chip=A100 jaxlib=0.12.0
    export XLA_FLAGS=--xla_...
    ```

The word after the fence is the block's language; options for its runner follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path
from typing import Final, Protocol, TypeVar, runtime_checkable

from counterpoint.core.errors import CounterpointError

__all__ = [
    "DocumentedRule",
    "as_text",
    "find_rule",
    "found_by",
    "page_text",
    "read_page",
    "similar_codes",
]

Finding = TypeVar("Finding")
Subject = TypeVar("Subject")

SECTIONS: Final = (
    "What it does",
    "Why it costs time",
    "How it is detected",
    "Example",
    "Fix",
    "Fix safety",
    "References",
)

WITH_FALSE_ALARMS: Final = (*SECTIONS[:-1], "False alarms", SECTIONS[-1])
"""Rules that judge a measurement also describe their false alarms."""

_LONGEST: Final = 160  # characters of an exception in a line
_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_FENCE: Final = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class DocumentedRule(Protocol):
    """The documented properties of a rule, as constants of its module or fields of its row."""

    __doc__: str | None

    @property
    def CODE(self) -> str: ...  # noqa: N802
    @property
    def NAME(self) -> str: ...  # noqa: N802
    @property
    def SINCE(self) -> str: ...  # noqa: N802


@runtime_checkable
class PagedRule(Protocol):
    """A rule that has its documentation in a file, and not as a docstring."""

    @property
    def page(self) -> str: ...


@dataclass(frozen=True, slots=True)
class FencedBlock:
    """A fenced block: its language, its options, and its content."""

    language: str
    options: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class RulePage:
    """The documentation of one rule; `sections` by heading, without the headings."""

    code: str
    name: str
    since: str
    title: str
    sections: Mapping[str, str]

    def blocks(self, heading: str) -> tuple[FencedBlock, ...]:
        """Return the fenced blocks of a section."""
        fences = _FENCE.finditer(self.sections[heading])
        return tuple(FencedBlock(match[1], _options(match[2]), match[3]) for match in fences)


def page_text(rule: DocumentedRule) -> str:
    """Return the documentation of a rule: its page, or the docstring of its module."""
    return cleandoc(rule.page if isinstance(rule, PagedRule) else rule.__doc__ or "")


def read_page(rule: DocumentedRule) -> RulePage:
    """Parse the documentation of a rule; a malformed one raises a ValueError."""
    text = page_text(rule)
    title, *parts = _HEADING.split(text)
    headings = tuple(parts[::2])
    if headings not in (SECTIONS, WITH_FALSE_ALARMS):
        raise ValueError(f"{rule.CODE}: the sections are {headings}, not {SECTIONS}")
    sections = {
        heading: body.strip("\n") for heading, body in zip(headings, parts[1::2], strict=True)
    }
    empty = [heading for heading, body in sections.items() if not body.strip()]
    if empty or not title.strip():
        raise ValueError(f"{rule.CODE}: nothing under {', '.join(empty) or 'the title'}")
    return RulePage(rule.CODE, rule.NAME, rule.SINCE, " ".join(title.split()), sections)


def found_by(
    rule: DocumentedRule, check: Callable[[Subject], Iterable[Finding]], subject: Subject
) -> tuple[list[Finding], str | None]:
    """Return what a rule finds; if it fails, nothing and why: the other rules do not need it."""
    try:
        return list(check(subject)), None
    except CounterpointError as error:
        why = f": {error.sentence.rstrip('.')}"
    except Exception as error:  # noqa: BLE001  whatever a defect may raise
        why = f" because of a defect in Counterpoint ({_defect(error)}; please report it)"
    return [], f"{rule.CODE} could not be checked{why}; what it finds is missing here"


def _defect(error: Exception) -> str:
    """Describe a defect in a line: the exception, and its place in the code."""
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error}".splitlines()[0][:_LONGEST]
    return f"{what}, at {Path(last.filename).name}:{last.lineno}"


def find_rule(rules: Sequence[DocumentedRule], code: str) -> DocumentedRule | None:
    """Return a rule by its code or its name, in any case; None if there is none."""
    wanted = code.strip().lower()
    return next((rule for rule in rules if wanted in (rule.CODE.lower(), rule.NAME.lower())), None)


def similar_codes(rules: Iterable[DocumentedRule], code: str, count: int = 5) -> tuple[str, ...]:
    """Return codes that may have been meant, of rules with a similar code or name."""
    import difflib

    wanted = code.strip().lower()
    codes = {rule.CODE.lower(): rule.CODE for rule in rules}
    names = {rule.NAME.lower(): rule.CODE for rule in rules}
    close = [codes[hit] for hit in difflib.get_close_matches(wanted, codes, n=count, cutoff=0.7)]
    close += [names[hit] for hit in difflib.get_close_matches(wanted, names, n=count, cutoff=0.5)]
    close += [code for name, code in names.items() if wanted and wanted in name]
    return tuple(dict.fromkeys(close))[:count]


def as_text(page: RulePage) -> str:
    """Format the page for a terminal: no fences, headings underlined."""
    lines = [f"{page.code} {page.name} (since {page.since})", "", page.title]
    for heading, body in page.sections.items():
        plain = _FENCE.sub(lambda match: _indented(match[3]), body)
        lines += ["", heading, "-" * len(heading), plain]
    return "\n".join(lines) + "\n"


def _options(text: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in text.split())
    return {name: value or "true" for name, _, value in pairs}


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
