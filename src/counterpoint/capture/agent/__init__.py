"""What enters the user's process: it watches JAX through its public hooks, and takes the profile.

`counterpoint run` has it loaded by its path when Python starts (`core/injection`). Nothing happens
until the program itself imports jax. Whatever fails in here is written down and never reaches the
program: docs/concepts/agent.md.

The interpreter may be older than ours and know nothing of Counterpoint. So this package and all it
imports is the standard library's, Python 3.9's, and imported relatively.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

DIRECTORY = "COUNTERPOINT_AGENT_DIR"
"""Where to write: the directory of this rank. Without it the agent stays out."""

WINDOW = "COUNTERPOINT_AGENT_WINDOW"
"""What to profile, as JSON; without it nothing is."""


def enter(when_loaded: Callable[[str, Callable[[], None]], None]) -> None:
    """Watch for jax, if this process was asked to."""
    directory = os.environ.get(DIRECTORY)
    if directory:
        when_loaded("jax", lambda: _begin(directory))


def _begin(directory: str) -> None:
    from .observer import begin

    begin(sys.modules["jax"], directory, os.environ.get(WINDOW))
