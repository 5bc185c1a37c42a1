"""In place: a program's source with the mended flags, and everything else as it was.

What a program inherits or computes stays in its expressions. Only flags that stand literally on
their line, once, are written anew; the others are left to the reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.channel import Channel
from counterpoint.flags.lint.remark import Remark
from counterpoint.flags.written import Written

_FLAGS: Final = (Channel.XLA_FLAGS, Channel.LIBTPU_INIT_ARGS)
_PLAIN: Final = re.compile(r"[\w=.,:/+-]*", re.ASCII)
"""What means the same in any literal of Python."""


@dataclass(frozen=True, slots=True)
class Mended:
    """The text, with the mends that were made in it and those that could not be."""

    text: str
    made: tuple[Remark, ...]
    undone: tuple[Remark, ...]


def in_place(
    source: str, made: tuple[Remark, ...], wanted: Written, read: Callable[[str], Written]
) -> Mended:
    """The source with these mends, if what is read in it then is what is wanted."""
    rows = source.split("\n")
    done = [one for one in made if _rewrite(rows, one)]
    undone = tuple(one for one in made if one not in done)
    text = "\n".join(rows)
    if not undone and read(text).settings.flags != wanted.settings.flags:
        return Mended(source, (), made)
    return Mended(text, tuple(done), undone)


def _rewrite(rows: list[str], one: Remark) -> bool:
    line = one.place.line
    if one.mend is None or one.channel not in _FLAGS or line is None or line > len(rows):
        return False
    new = " ".join(f"--{name}={value}" for name, value in one.mend.instead)
    row = rows[line - 1]
    found = [*re.finditer(rf"(?<![\w-]){re.escape(one.text)}(?![^\s\"'\\])", row)]
    if len(found) != 1 or not all(_PLAIN.fullmatch(it) for it in (*new.split(), one.text)):
        return False
    rows[line - 1] = f"{row[: found[0].start()]}{new}{row[found[0].end() :]}"
    return True
