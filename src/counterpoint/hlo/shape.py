"""The type of a value in HLO: an element type with dimensions, or a tuple of such.

A shape keeps what costs depend on: dimensions, order in memory and memory space. Tiling, padding
and dynamic sizes are not kept, so `bytes` is the unpadded size, with a dynamic dimension at its
bound. Elements below a byte are packed: an `s4[3]` takes two bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from counterpoint.core.errors import InputError

# Element types whose name does not say how many bits they take.
_BITS = {"pred": 8, "token": 0, "opaque": 0}
_BITS_IN_NAME = re.compile(r"(?:bf|[fsuc])(\d+)(?:e\d+m\d+[a-z0-9]*)?")


@dataclass(frozen=True, slots=True)
class Shape:
    """`bf16[8,128]`, or a tuple of shapes (`dtype` is then "tuple", `dims` empty)."""

    dtype: str
    dims: tuple[int, ...] = ()
    parts: tuple[Shape, ...] = ()
    minor_to_major: tuple[int, ...] = ()
    memory_space: int = 0

    @property
    def is_tuple(self) -> bool:
        return self.dtype == "tuple"

    @property
    def elements(self) -> int:
        """Number of elements, over all parts of a tuple; tokens and opaque values have none."""
        if self.parts:
            return sum(part.elements for part in self.parts)
        return math.prod(self.dims) if element_bits(self.dtype) else 0

    @property
    def bytes(self) -> int:
        """Unpadded size, over all parts of a tuple."""
        if self.parts:
            return sum(part.bytes for part in self.parts)
        return -(-self.elements * element_bits(self.dtype) // 8)

    @property
    def leaves(self) -> Iterator[Shape]:
        """The arrays (and tokens) inside, in order; an array is its own only leaf."""
        if not self.is_tuple:
            yield self
        for part in self.parts:
            yield from part.leaves

    def __str__(self) -> str:
        if self.is_tuple:
            return f"({', '.join(map(str, self.parts))})"
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@cache
def element_bits(dtype: str) -> int:
    """Bits of one element; 0 for what holds no data."""
    if dtype in _BITS:
        return _BITS[dtype]
    if dtype in ("tuple", "buffer"):
        return 0
    match = _BITS_IN_NAME.fullmatch(dtype)
    if not match:
        raise InputError(
            f"element type {dtype!r} is unknown",
            why="it is not one of XLA's element types and its name does not give its width",
        )
    return int(match[1])
