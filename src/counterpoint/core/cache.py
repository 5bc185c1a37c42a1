"""The directory in which what is expensive to make is kept from one command to the next."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["cache_directory"]

CACHE_VARIABLE: Final = "COUNTERPOINT_CACHE"


def cache_directory(name: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the directory of a cache; None if caching is disabled, or there is no home."""
    setting = environment.get(CACHE_VARIABLE, "")
    if setting.lower() in ("off", "0", "no", "false"):
        return None
    if setting:
        return Path(setting).expanduser() / name
    home = environment.get("XDG_CACHE_HOME", "")
    if Path(home).is_absolute():
        return Path(home) / "counterpoint" / name
    with contextlib.suppress(RuntimeError):  # nobody knows the home directory
        if Path.home().is_dir():  # a service may name one that is not there: do not make it
            return Path.home() / ".cache" / "counterpoint" / name
    return None
