"""Programs that are asked: nvidia-smi, ip. Each may be missing, refuse, or hang."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from typing import Final

Ask = Callable[[Sequence[str]], "str | None"]
"""What a program prints; None where it could not be asked, or failed."""

_SECONDS: Final = 20
"""nvidia-smi takes seconds where the driver sets up GPUs first."""


def ask(words: Sequence[str]) -> str | None:
    """Run it, in English."""
    try:
        done = subprocess.run(  # noqa: S603 - our own words
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
