"""What the shell exports, which a prediction of a file does not look at.

A command inherits it and is lowered with it. A file has no process: what counts is what the
command line says, so that one line gives one answer on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_COUNTS: Final = re.compile(r"XLA_FLAGS|XLA_(PYTHON_)?CLIENT_\w+|NCCL_\w+|JAX_\w+")
_ELSEWHERE: Final = re.compile(r"JAX_(PLATFORMS|PLATFORM_NAME|DUMP\w*|COMPILATION_CACHE\w*|LOG\w*)")
_MOST: Final = 5


def shell_note(inherited: Mapping[str, str], given: Mapping[str, str]) -> str | None:
    """That variables of the shell do not count, and how they would."""
    names = sorted(
        name
        for name, value in inherited.items()
        if value and name not in given and _COUNTS.fullmatch(name)
        if not _ELSEWHERE.fullmatch(name)
    )
    if not names:
        return None
    shown = ", ".join(names[:_MOST]) + (", ..." if names[_MOST:] else "")
    first = "XLA_FLAGS" if "XLA_FLAGS" in names else names[0]
    return f'exported, and not counted here: {shown}; to count: --env {first}="${first}"'
