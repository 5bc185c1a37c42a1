"""The memory that this process may use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["whole_memory"]

_CONTAINER_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


def whole_memory() -> int:
    """Return the machine's memory in bytes, or what the container may use of it."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no container, or "max"
        whole = min(whole, int(_CONTAINER_LIMIT.read_text()))
    return whole
