"""Rulebook: what a rule says of itself in its module's docstring, for people and for programs.

The first line is the title. Then come the sections of SECTIONS, each once and in that order, as
Markdown; "False alarms" may precede the last. The documentation, `explain-code` and the tests all
use this text, so there is no second one to disagree with it. "Example" holds what the rule finds,
in a fenced block:

    ```sh chip=A100 jaxlib=0.12.0
    export XLA_FLAGS=--xla_...
    ```

The word behind the fence is the block's language; what follows are options, for who runs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import cleandoc
from typing import Final, Protocol

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
"""Rules that judge a measurement also say when they may be wrong."""

_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_FENCE: Final = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Documented(Protocol):
    """What a rule's module says of itself; the names are those of its constants."""

    __doc__: str | None

    @property
    def CODE(self) -> str: ...  # noqa: N802
    @property
    def NAME(self) -> str: ...  # noqa: N802
    @property
    def SINCE(self) -> str: ...  # noqa: N802


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its options, and what stands in it."""

    language: str
    options: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """The documentation of one rule; `sections` by heading, without the headings."""

    code: str
    name: str
    since: str
    title: str
    sections: Mapping[str, str]

    def blocks(self, heading: str) -> tuple[Block, ...]:
        """The fenced blocks of a section."""
        found = _FENCE.finditer(self.sections[heading])
        return tuple(Block(match[1], _options(match[2]), match[3]) for match in found)


def read_page(rule: Documented) -> Page:
    """The documentation of a rule. A docstring of another shape is an error of its author's."""
    text = cleandoc(rule.__doc__ or "")
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
    return Page(rule.CODE, rule.NAME, rule.SINCE, " ".join(title.split()), sections)


def find_rule(rules: Sequence[Documented], code: str) -> Documented | None:
    """A rule by its code or its name, in any case; None if there is none."""
    wanted = code.strip().lower()
    return next((one for one in rules if wanted in (one.CODE.lower(), one.NAME.lower())), None)


def near_codes(rules: Iterable[Documented], code: str, count: int = 5) -> tuple[str, ...]:
    """Codes that this one may have been meant to be: of rules with such a code or such a name."""
    import difflib

    wanted = code.strip().lower()
    codes = {one.CODE.lower(): one.CODE for one in rules}
    names = {one.NAME.lower(): one.CODE for one in rules}
    close = [codes[hit] for hit in difflib.get_close_matches(wanted, codes, n=count, cutoff=0.7)]
    close += [names[hit] for hit in difflib.get_close_matches(wanted, names, n=count, cutoff=0.5)]
    close += [code for name, code in names.items() if wanted and wanted in name]
    return tuple(dict.fromkeys(close))[:count]


def as_text(page: Page) -> str:
    """The page for a terminal: no fences, headings underlined."""
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
