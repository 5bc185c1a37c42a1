"""Digest: a result in a few lines for a program that reads text, such as a coding agent.

Every line with a figure names its basis in brackets, as `step [measured]: 130.8 ms`. A line is kept
whole or left out, never cut, so that a figure never loses digits or its unit. The last lines count
what was left out, and name the next command.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.core import ArgumentError
from counterpoint.core.printable import counted_noun, printable
from counterpoint.report.places import short_path, without_beginning, without_middle

__all__ = ["BUDGET", "LEAST", "Digest", "DigestLine", "lines_markdown"]

BUDGET: Final = 1500
"""Characters of a digest unless another size is asked for."""
LEAST: Final = 500
"""The smallest size that may be asked for."""
LOSS: Final = "possible saving"
"""The kind of lines for losses: if one has no room, no line of a higher rank is kept."""
_NAME: Final = 60
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


@dataclass(frozen=True, slots=True)
class DigestLine:
    """A line; those of lower rank are kept first.

    `kind` is the noun by which lines that were left out are counted.
    """

    text: str
    rank: int
    kind: str = "line"


@dataclass(frozen=True, slots=True)
class Digest:
    """Lines in reading order, and the next command, which is the last line."""

    lines: tuple[DigestLine, ...]
    next: str

    def text(self, budget: int = BUDGET) -> str:
        """Return the digest in at most `budget` characters.

        The next command has its room first; it is left out only if it is longer than the budget.
        """
        if budget < LEAST:
            raise ArgumentError(
                "budget",
                budget,
                f"a digest takes at least {LEAST} characters",
                instead=LEAST,
            )
        last = len(self.lines)
        lines = [*self.lines, DigestLine(f"next: {self.next}", -1, "next command")]
        kept: set[int] = set()
        for at in (last, *sorted(range(last), key=lambda at: (lines[at].rank, at))):
            if len(_rendered(lines, kept | {at}, budget)) <= budget:
                kept.add(at)
            elif lines[at].kind == LOSS:
                break
        return _rendered(lines, kept, budget)

    def markdown(self, title: str) -> str:
        """Return all lines as a Markdown list under a heading."""
        points = lines_markdown(title, [line.text for line in self.lines])
        return "\n".join((points, "```", printable(self.next), "```", ""))


def lines_markdown(title: str, lines: Iterable[str]) -> str:
    """Return lines as a Markdown list under a heading."""
    points = [f"- {_escaped(printable(line))}" for line in lines]
    return "\n".join((f"### {_escaped(printable(title))}", "", *points, ""))


def _rendered(lines: Sequence[DigestLine], kept: Iterable[int], budget: int) -> str:
    """Return the lines that are kept, and a count of the others: by kind if there is room."""
    chosen = frozenset(kept)
    shown = [printable(line.text) for at, line in enumerate(lines) if at in chosen]
    missing = Counter(line.kind for at, line in enumerate(lines) if at not in chosen)
    if not missing:
        return "\n".join(shown) + "\n"
    by_kind = ", ".join(counted_noun(count, kind) for kind, count in missing.items())
    at = len(shown) - (len(lines) - 1 in chosen)
    text = ""
    for counts in (by_kind, counted_noun(missing.total(), "line")):
        left = f"left out: {counts}; a larger --budget or --json has more"
        text = "\n".join((*shown[:at], left, *shown[at:])) + "\n"
        if len(text) <= budget:
            break
    return text


def _escaped(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return _MARKDOWN.sub(r"\\\1", html.escape(text, quote=False).replace("&gt;", ">"))


def short_name(name: str) -> str:
    """Return the name of an op, file or program, short enough for a line that is always kept."""
    return without_middle(printable(name), _NAME, "...")


def short_place(place: str) -> str:
    """Return the end of a path or scope, which is its most specific part."""
    return without_beginning(short_path(printable(place)), _NAME, "...")


def notes(texts: Iterable[str], rank: int) -> list[DigestLine]:
    """Return notes as lines, each once."""
    return [DigestLine(f"note: {note}", rank, "note") for note in dict.fromkeys(texts)]
