"""A name that nobody has yet, for what would have been written over something."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Final

_LONGEST: Final = 4  # digits of a number that we have put behind a name; not of a date


def beside(path: Path) -> Path:
    """A path that does not exist: `before-2` beside `before`, `before-3` beside that."""
    stem, _, last = path.name.rpartition("-")
    again = bool(stem) and last.isdecimal() and len(last) < _LONGEST
    stem, first = (stem, int(last) + 1) if again else (path.name, 2)
    names = (path.with_name(f"{stem}-{number}") for number in count(first))
    return next(name for name in names if not name.exists())
