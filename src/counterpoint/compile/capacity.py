"""How many compiles may run at once: as many as cores and free memory allow."""

from __future__ import annotations

from typing import Final

from counterpoint.core.memory import free_memory
from counterpoint.core.threads import cores

_ONE_COMPILE: Final = 1.5 * 2**30
"""Bytes. The largest of 23 programs of 8 to 2,048 devices took 1.2 GB."""
_ONE_FOR_TPUS: Final = 3.0 * 2**30
"""Bytes. A 16B took 1.5 GB, Llama-3.1-8B with offloading and windowed einsums 2.9 GB."""


def usual_jobs(*, tpus: bool = False) -> int:
    """Return the number of concurrent compiles; at least 1."""
    memory = free_memory()
    each = _ONE_FOR_TPUS if tpus else _ONE_COMPILE
    return max(1, min(cores(), int(memory / each)))
