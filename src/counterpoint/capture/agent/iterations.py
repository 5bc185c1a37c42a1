"""Tells which calls of a function begin an iteration of the training loop.

A gradient that is accumulated over several batches is called several times with the same weights,
and so is one network of a GAN that trains more often than the other. An iteration begins with the
call whose weights are new. What never changes (constants, one batch for all) tells nothing.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

_SHARE = 0.25  # of the bytes of a call's arrays, which weights are at least
_LONGEST = 128  # calls of one iteration


class Iterations:
    """The iterations of the loop that calls one function.

    Until it is known that arguments stay the same for several calls and then change, each call is
    taken for an iteration; then these count as the one that they were.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last: list[weakref.ref[Any]] = []
        self._held: set[int] = set()  # arguments that were handed in again
        self._are_weights = False  # whether these were renewed after that
        self._before = 0  # the count before this iteration
        self._calls = 0  # of this iteration

    def call(self, arguments: object) -> bool:
        """Count a call; return whether it begins an iteration."""
        arrays = arrays_of(arguments)
        renewed = self._compared(arrays)
        self._last = [weakref.ref(array) for array in arrays]
        self._calls += 1
        if renewed:
            if not self._are_weights and self._calls <= _LONGEST:
                self.count = self._before + 1  # its calls so far were one iteration
            self._are_weights, self._calls = True, 0
        elif self._are_weights and self._calls < _LONGEST:
            return False
        elif not self._held:
            self._before, self._calls = self.count, 0
        self.count += 1
        return True

    def _compared(self, arrays: list[Any]) -> bool:
        """Compare with the last call; return whether what was held is new now."""
        if len(arrays) != len(self._last):
            self._held = set()
            return False
        same = {at for at, ref in enumerate(self._last) if ref() is arrays[at]}
        new = self._held - same
        self._held |= same
        return size_of(arrays, new) > _SHARE * size_of(arrays, set(range(len(arrays))))


def arrays_of(arguments: object) -> list[Any]:
    """Return the arrays of a call, or of its results."""
    leaves: list[Any] = sys.modules["jax"].tree_util.tree_leaves(arguments)
    return [leaf for leaf in leaves if hasattr(leaf, "nbytes") and hasattr(leaf, "shape")]


def size_of(arrays: list[Any], at: set[int]) -> int:
    """Return the bytes of the arrays at these places."""
    total = 0
    for place in at:
        size = arrays[place].dtype.itemsize
        for extent in arrays[place].shape:
            size *= extent
        total += size
    return total
