"""Flags that XLA no longer reads: one error for all of them.

A prediction hands flags to the compiler as options of one compile, and a compile has a few options
that XLA_FLAGS has not, or no longer: with these in XLA_FLAGS, a run aborts.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from counterpoint.core import CounterpointError, UsageError
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.lifecycle import lifecycle_of, removal_of
from counterpoint.flags.settings import Settings


def unknown_to_xla_flags(settings: Settings, jaxlib: str | None) -> UsageError | None:
    """Return the error for a flag on which a run aborts although its compile has such an option."""
    here = release(jaxlib)
    if not here.exact:
        return None
    for name in settings.flags:
        flag = here.flags.get(name)
        if flag is None or not flag.compile_option or (flag.xla_flags and not flag.fatal):
            continue
        past = lifecycle_of(name, here)
        told = (past.when, past.what.rstrip("."), "only an option of one compile has this name")
        return UsageError(
            f"{name}: XLA of jaxlib {here.version} aborts on it in XLA_FLAGS",
            why="; ".join(text for text in told if text),
            next="omit it, or give it to jax.jit as one of its compiler_options",
        )
    return None


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
