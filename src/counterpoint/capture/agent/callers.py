"""Finds the caller of the current compile on the Python stack of the waiting thread."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

_OWN = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120  no pathlib in a hot path
_STAGES = os.path.join("jax", "_src", "stages.py")  # noqa: PTH118
_PLUMBING = ("contextlib.py", "functools.py", "threading.py")


class Caller(NamedTuple):
    """`aot`: by `.lower().compile()`. `where`: the first frame outside JAX, file:line."""

    aot: bool
    where: str | None


def caller(jax_directory: str) -> Caller:
    """Return the caller that waits for the current call."""
    aot, where = False, None
    frame = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = frame.f_code.co_filename
        if file.endswith(_STAGES):
            aot = aot or frame.f_code.co_name == "compile"
        elif where is None and not _is_between(file, jax_directory):
            where = f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return Caller(aot, where)


def _is_between(file: str, jax_directory: str) -> bool:
    """Return whether a frame belongs to JAX, the agent, or the plumbing between them."""
    return (
        file.startswith((jax_directory, _OWN, "<frozen")) or os.path.basename(file) in _PLUMBING  # noqa: PTH119
    )
