"""All flags that a compiler won't know, when it has named the first.

XLA stops at the first name it does not know; a recipe of an older release has several.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from counterpoint.core.errors import CounterpointError, UsageError
from counterpoint.flags.gone import gone

_MARK: Final = "has no option "
_MOST: Final = 8


def with_the_others(
    error: CounterpointError, flags: Iterable[str], recipes: Sequence[str]
) -> CounterpointError:
    """The same error, with the other flags that went, and the command that mends a file."""
    if not isinstance(error, UsageError) or _MARK not in error.what:
        return error
    first = error.what.rpartition(_MARK)[2]
    others = [name for name in dict.fromkeys(flags) if name != first and gone(name)]
    said = ", ".join(others[:_MOST]) + (
        f" and {len(others) - _MOST} more" if others[_MOST:] else ""
    )
    file = next((it for it in recipes if Path(it).is_file() and first in _text(it)), None)
    then = f"counterpoint flags check {shlex.quote(file)} --fix" if file else error.next
    return UsageError(
        error.what + (f"; removed as well: {said}" if others else ""), why=error.why, next=then
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
