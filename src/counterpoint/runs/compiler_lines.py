"""Extracts the lines that XLA and its libraries log from a process's stderr.

I1121 09:25:01.123456   4711 gpu_compiler.cc:12] text          absl
W0000 00:00:1763717101.123456   4711 hlo.cc:12] text           absl before it is set up
2025-11-21 09:25:01.123456: W external/xla/hlo.cc:12] text     TSL, older
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(
    r"^(?:(?P<absl>[IWEF])\d{4} [\d:.]+\s+\d+|\d{4}-\d\d-\d\d [\d:.]+: (?P<tsl>[IWEF])) "
    r"(?P<file>[^\s:]+):(?P<line>\d+)\] ?(?P<text>.*)$",
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
            found["absl"] or found["tsl"], found["file"], int(found["line"]), found["text"].rstrip()
        )
        for found in _LINE.finditer(text)
    )
