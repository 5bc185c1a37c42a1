"""What enters the user's process: it watches JAX through its public hooks, and takes the profile.

`counterpoint run` puts the directory `site` on PYTHONPATH, so that the interpreter imports our
sitecustomize, which loads this package by its path under the name in `NAME`. Nothing happens until
the program itself imports jax. Whatever fails in here is written down and never reaches the
program: docs/concepts/agent.md.

The interpreter may be older than ours and know nothing of Counterpoint. So this package and all it
imports is the standard library's, Python 3.9's, and imported relatively.
"""

from __future__ import annotations

import os
import sys

NAME = "_counterpoint_agent"
"""The package's name in a process that sitecustomize brought it into."""

DIRECTORY = "COUNTERPOINT_AGENT_DIR"
"""Where to write: the directory of this rank. Without it the agent stays out."""

WINDOW = "COUNTERPOINT_AGENT_WINDOW"
"""What to profile, as JSON; without it nothing is."""


LOWERING = "COUNTERPOINT_AGENT_LOWERING"
"""What to lower instead of running, as JSON: capture/lowering.py."""


def enter() -> None:
    """Watch for jax, if this process was asked to."""
    task = os.environ.get(LOWERING)
    if task:
        from . import lowering

        lowering.enter(task)
        return
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return
    from .arrival import when_loaded

    when_loaded("jax", lambda: _begin(directory))


def _begin(directory: str) -> None:
    from .observer import begin

    begin(sys.modules["jax"], directory, os.environ.get(WINDOW))
