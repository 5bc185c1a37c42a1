"""Lines of a log that the compiler wrote."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(
    r"^(?:(?P<absl>[IWEF])\d{4} [\d:.]+\s+\d+|\d{4}-\d\d-\d\d [\d:.]+: (?P<tsl>[IWEF])) "
    r"(?P<file>[^\s:]+):(?P<line>\d{1,9})\] ?(?P<text>.*)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class CompilerLine:
    """One line: its level (I, W, E or F), its place in the compiler's source, and its text."""

    level: str
    file: str
    line: int
    text: str


def compiler_lines(text: str) -> tuple[CompilerLine, ...]:
    """Return all such lines of a log, in order."""
    return tuple(
        CompilerLine(
            match["absl"] or match["tsl"], match["file"], int(match["line"]), match["text"].rstrip()
        )
        for match in _LINE.finditer(text)
    )
