"""Flags that the compiler no longer has: one error for all of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from counterpoint.core import CounterpointError, UsageError
from counterpoint.flags.lifecycle import removal_of

_MARK: Final = "has no option "
_MOST: Final = 8


def with_the_others(
    error: CounterpointError, flags: Iterable[str], recipes: Sequence[str]
) -> CounterpointError:
    """Return the error with the other removed flags, and the command that corrects a file."""
    if not isinstance(error, UsageError) or _MARK not in error.what:
        return error
    first = error.what.rpartition(_MARK)[2]
    others = [name for name in dict.fromkeys(flags) if name != first and removal_of(name)]
    removed = ", ".join(others[:_MOST]) + (
        f" and {len(others) - _MOST} more" if others[_MOST:] else ""
    )
    file = next(
        (recipe for recipe in recipes if Path(recipe).is_file() and first in _text(recipe)), None
    )
    then = f"counterpoint flags check {shlex.quote(file)} --fix" if file else error.next
    return UsageError(
        error.what + (f"; also removed: {removed}" if others else ""), why=error.why, next=then
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
