"""A limit on the memory of a program that is lowered, so that it does not take all there is."""

from __future__ import annotations

import time
from typing import Final

from counterpoint.core import InputError
from counterpoint.core.memory import free_memory, memory_of_session

_SHARE: Final = 0.8
_EVERY_S: Final = 0.2
_GIB: Final = 2**30


class MemoryLimit:
    """Four fifths of the memory that is free when a program is started.

    It is for all processes of a session, or for one process.
    """

    def __init__(self, free: float | None = None) -> None:
        self.free = free_memory() if free is None else free
        self.bytes = _SHARE * self.free
        self._next_s = 0.0

    def check(self, session: int, what: str, seen: str = "") -> None:
        """Raise the error for a session or process that holds more; `what` names it."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + _EVERY_S
        held = memory_of_session(session, self.bytes)
        if held < self.bytes:
            return
        raise InputError(
            f"{what} took {held / _GIB:.1f} GiB of memory before its step was known, and was ended",
            why=f"{self.free / _GIB:.1f} GiB were free, and four fifths of that is the limit{seen}."
            " Large results of JAX take no memory here, but NumPy's arrays, data sets and"
            " checkpoints do",
            next="create parameters by JAX (within jax.jit, or as jax.ShapeDtypeStruct), and leave"
            " out the restore of a checkpoint: the values do not matter for a prediction",
        )
