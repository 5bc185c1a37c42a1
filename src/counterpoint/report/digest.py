"""Digest: a result in a few lines for a program that reads text, such as a coding agent.

Every line with a figure names its basis in brackets, as `step [measured]: 130.8 ms`. Lines are kept
whole or left out, never cut: so a figure never loses digits or its unit. What is left out is
counted in the digest.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from counterpoint.core import ArgumentError
from counterpoint.core.frozen import frozen
from counterpoint.report.places import short_path, without_beginning, without_middle
from counterpoint.report.units import counted_noun, printable

__all__ = ["BUDGET", "LEAST", "Digest", "DigestLine", "lines_markdown"]

BUDGET: Final = 1500
"""Characters of a digest unless another size is asked for."""
LEAST: Final = 500
"""Characters that the lines which are always there may take."""
_NAME: Final = 60
_HEAD: Final = 0
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


@frozen
class DigestLine:
    """A line; those of lower rank are kept first, and those of rank 0 always.

    `kind` is the noun by which lines are counted that are left out.
    """

    text: str
    rank: int
    kind: str = "line"


@frozen
class Digest:
    """Lines in the order in which they are read, the next command, and what is never left out."""

    lines: tuple[DigestLine, ...]
    next: str

    def text(self, budget: int = BUDGET) -> str:
        """Return the digest in at most `budget` characters."""
        if budget < LEAST:
            raise ArgumentError(
                "budget",
                budget,
                f"a digest takes at least {LEAST} characters",
                instead=LEAST,
            )
        lines = [*self.lines, DigestLine(f"next: {self.next}", 1, "next command")]
        order = sorted(range(len(lines)), key=lambda at: (lines[at].rank, at))
        kept: set[int] = set()
        for at in order:
            trial = _rendered(lines, kept | {at})
            if lines[at].rank == _HEAD or len(trial) <= budget:
                kept.add(at)
        return _rendered(lines, kept)

    def markdown(self, title: str) -> str:
        """Return all lines as a Markdown list under a heading."""
        points = lines_markdown(title, [line.text for line in self.lines])
        return "\n".join((points, "```", printable(self.next), "```", ""))


def lines_markdown(title: str, lines: Iterable[str]) -> str:
    """Return lines as a Markdown list under a heading."""
    points = [f"- {_escaped(printable(line))}" for line in lines]
    return "\n".join((f"### {_escaped(printable(title))}", "", *points, ""))


def _rendered(lines: Sequence[DigestLine], kept: Iterable[int]) -> str:
    chosen = frozenset(kept)
    shown = [printable(line.text) for at, line in enumerate(lines) if at in chosen]
    missing = Counter(line.kind for at, line in enumerate(lines) if at not in chosen)
    if missing:
        counts = ", ".join(counted_noun(count, kind) for kind, count in missing.items())
        last = lines[-1].text if len(lines) - 1 in chosen else None
        at = len(shown) - (last is not None)
        shown.insert(at, f"left out: {counts}; a larger `budget=` or `json=` has more")
    return "\n".join(shown) + "\n"


def _escaped(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return _MARKDOWN.sub(r"\\\1", html.escape(text, quote=False).replace("&gt;", ">"))


def short_name(name: str) -> str:
    """Return a name of an op, a file or a program, short enough for a line that is always there."""
    return without_middle(printable(name), _NAME, "...")


def short_place(place: str) -> str:
    """Return the end of a path or scope, which is its most specific part."""
    return without_beginning(short_path(printable(place)), _NAME, "...")


def notes(found: Iterable[str], rank: int) -> list[DigestLine]:
    """Return notes as lines, each once."""
    return [DigestLine(f"note: {note}", rank, "note") for note in dict.fromkeys(found)]
