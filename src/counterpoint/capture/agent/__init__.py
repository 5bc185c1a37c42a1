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
from contextlib import suppress
from typing import Any

DIRECTORY = "COUNTERPOINT_AGENT_DIR"
"""The output directory of this rank. Without it the agent does nothing."""

WINDOW = "COUNTERPOINT_AGENT_WINDOW"
"""The profile window, as JSON; without it there is no profile."""

SETTINGS = "COUNTERPOINT_AGENT_SETTINGS"
"""The settings to keep in the environment, as JSON: the arguments of `KeptVariables`."""

ENTERED = "entered"
"""An empty file: a Python of this rank has loaded the agent."""


def enter(
    when_loaded: Callable[[str, Callable[[], None], Callable[[], None]], None],
    keep_variables: Callable[..., Any],
) -> None:
    """Keep the requested settings, and wait for jax, if this process was configured for it."""
    directory = os.environ.get(DIRECTORY)
    if directory:
        kept = None
        with suppress(Exception):  # then the Run says that the settings did not arrive
            kept = _keep(directory, keep_variables)
        when_loaded(
            "jax",
            lambda: _begin(directory, kept),
            lambda: None if kept is None else kept.restore(),
        )


def _keep(directory: str, keep_variables: Callable[..., Any]) -> Any:  # noqa: ANN401
    settings = os.environ.get(SETTINGS)
    if not settings:
        return None
    import json

    kept = keep_variables(**json.loads(settings))
    kept.install()
    place = os.path.join(directory, "agent")  # noqa: PTH118  pathlib is slow to import
    os.makedirs(place, exist_ok=True)  # noqa: PTH103
    open(os.path.join(place, ENTERED), "a").close()  # noqa: PTH118, PTH123
    return kept


def _begin(directory: str, kept: Any) -> None:  # noqa: ANN401
    from .observer import begin

    if kept is not None:
        kept.compare("jax")
    begin(sys.modules["jax"], directory, os.environ.get(WINDOW), kept)
