"""Programs that are run for what they print."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from typing import Final

RunTool = Callable[[Sequence[str]], "str | None"]
"""Returns the output of a program; None if it can't be run or failed."""

_SECONDS: Final = 20
"""nvidia-smi takes seconds if the driver has to initialize the GPUs first."""


def run_tool(words: Sequence[str]) -> str | None:
    """Run a program with LC_ALL=C and return its output; None if it can't be run or fails."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
