"""Flags as they stand: the content of an XLA flag file, or a value as it was pasted.

`XLA_FLAGS=` before it, one pair of quotes around it and backslashes at line ends are what a shell
would have taken away.
"""

from __future__ import annotations

import re
from typing import Final

from counterpoint.flags.settings import Channel
from counterpoint.flags.sources.flag_words import Variable, read_flags
from counterpoint.flags.sources.traced import Traced, known
from counterpoint.flags.sources.variables import FLAGS
from counterpoint.flags.written import COMMAND_LINE, Written

_HEAD: Final = re.compile(r"\s*(?:export\s+)?(XLA_FLAGS|LIBTPU_INIT_ARGS)\s*=\s*")
_CONTINUED: Final = re.compile(r"[ \t]*\\\r?\n")


def comment_in_flags(text: str) -> int | None:
    """The line of the first comment in a text that is all flags; None in any other text."""
    lines = [line.lstrip() for line in text.splitlines()]
    if not all(line.startswith(("--", "#")) for line in lines if line) or "--" not in text:
        return None
    return next((at for at, line in enumerate(lines, 1) if line.startswith("#")), None)


def read_flag_text(text: str, where: str) -> Written:
    """All flags of a text, with their lines."""
    head = _HEAD.match(text)
    channel = FLAGS[head[1]] if head else Channel.XLA_FLAGS
    value = text[head.end() :] if head else text
    line = text.count("\n", 0, head.end()) + 1 if head else 1
    bare = _unquoted(value)
    line += value.count("\n", 0, value.find(bare)) if bare else 0
    in_file = head is None and where != COMMAND_LINE
    variable = Variable(where, channel, in_file=in_file)
    found = read_flags(_without_backslashes(bare, line), variable)
    return Written(where=where, form="flags", given=tuple(found.given), slips=tuple(found.slips))


def _unquoted(text: str) -> str:
    bare = text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "'\"":
        return bare[1:-1]
    return bare


def _without_backslashes(text: str, line: int) -> Traced:
    """Line ends behind backslashes stay line ends, so that lines can be counted."""
    return known(_CONTINUED.sub("\n", text), line)
