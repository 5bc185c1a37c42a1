"""The code inside the user's process: it observes JAX through its public hooks, and profiles it.

`counterpoint run` has it loaded by its path when Python starts (`core/injection`). Nothing happens
until the program itself imports jax. Any failure in here is recorded and never reaches the program:
docs/concepts/agent.md.

The interpreter may be older than ours and without Counterpoint. So this package and all it imports
is limited to the standard library of Python 3.9, and imported relatively.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

DIRECTORY = "COUNTERPOINT_AGENT_DIR"
"""The output directory of this rank. Without it the agent does nothing."""

WINDOW = "COUNTERPOINT_AGENT_WINDOW"
"""The profile window, as JSON; without it there is no profile."""


def enter(when_loaded: Callable[[str, Callable[[], None]], None]) -> None:
    """Wait for jax to be imported, if this process was configured for it."""
    directory = os.environ.get(DIRECTORY)
    if directory:
        when_loaded("jax", lambda: _begin(directory))


def _begin(directory: str) -> None:
    from .observer import begin

    begin(sys.modules["jax"], directory, os.environ.get(WINDOW))
