"""One instruction of a compiled module, as the compiler wrote it, and its computation.

Names refer to other instructions and computations of the same module, where they are unique.
Properties that depend on several instructions (pairs, loops, provenance, costs) are computed
elsewhere in this package. Values of constants are kept for single integers only: they count loops.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, make_dataclass
from functools import cache
from typing import Any, Final, Self

from counterpoint.core import InputError
from counterpoint.hlo.model.groups import ReplicaGroups
from counterpoint.hlo.model.sharding import Sharding

# Element types whose names do not contain their width in bits.
_BITS = {"pred": 8, "token": 0, "opaque": 0}
_BITS_IN_NAME = re.compile(r"(?:bf|[fsuc])(\d+)(?:e\d+m\d[a-z0-9]*)?")
_MOST: Final = 2**66  # bits: XLA counts bytes in 64 bits, with a sign


@dataclass(frozen=True, slots=True)
class Shape:
    """`bf16[8,128]`, or a tuple of shapes (`dtype` is then "tuple", `dims` empty).

    Only dimensions, order in memory and memory space are kept, because costs depend on them.
    Tiling, padding and dynamic sizes are not, so `bytes` is the unpadded size with a dynamic
    dimension at its bound. Elements smaller than a byte are packed: an `s4[3]` takes two bytes.
    """

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

    def sound(self) -> Self:
        """Return the shape of an array; raise ValueError for sizes that no program can have."""
        if min(self.dims, default=0) < 0 or math.prod(self.dims) * element_bits(self.dtype) > _MOST:
            raise ValueError(f"an array of shape {str(self)[:80]} can't exist")
        if not all(0 <= dim < len(self.dims) for dim in self.minor_to_major):
            raise ValueError(f"the layout of shape {str(self)[:80]} names a missing dimension")
        return self

    def __str__(self) -> str:
        if self.is_tuple:
            return f"({', '.join(map(str, self.parts))})"
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@cache
def element_bits(dtype: str) -> int:
    """Return the bits of one element; 0 for types without data."""
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


Attributes = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DotDimensions:
    """The contracting and batch dimensions of a dot, left and right."""

    lhs_contracting: tuple[int, ...] = ()
    rhs_contracting: tuple[int, ...] = ()
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """How a convolution's kernel moves over a spatial dimension.

    `base` and `result` are the dimensions of the input and of the result; None: not recorded.
    """

    size: int
    stride: int = 1
    padding_low: int = 0
    window_dilation: int = 1
    base_dilation: int = 1
    base: int | None = None
    result: int | None = None


@dataclass(frozen=True, slots=True)
class Convolution:
    """The properties that determine a convolution's arithmetic.

    `kernel_output_feature` is a dimension.
    """

    window: tuple[WindowDimension, ...]
    kernel_output_feature: int
    feature_groups: int = 1
    batch_groups: int = 1


WINDOWED: Final = ("reduce-window", "select-and-scatter")
"""Opcodes that move a window over their first operand."""


@dataclass(frozen=True, slots=True)
class Indexing:
    """How a gather reads, or a scatter writes, windows at indices, and what is promised of these.

    `window_dims` are the dimensions of the gather's result, or of the scatter's updates, that lie
    within a window; the others count windows. A window has one element in those dimensions of the
    array that are `left_out` of it.
    """

    window_dims: tuple[int, ...] = ()
    left_out: tuple[int, ...] = ()
    are_sorted: bool = False
    are_unique: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `index` is its position in the schedule of its computation."""

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...]
    # Called computations; for a while the body, then the condition.
    calls: tuple[str, ...]
    computation: str
    index: int
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    stack_frame_id: int = 0
    # Usually JSON. Not compared: text and proto order its keys differently.
    backend_config: str = field(default="", repr=False, compare=False)
    frontend_attributes: Attributes = ()
    channel_id: int | None = None
    use_global_device_ids: bool = False
    groups: ReplicaGroups | None = None
    source_target_pairs: tuple[tuple[int, int], ...] = ()
    custom_call_target: str = ""
    fusion_kind: str = ""
    parameter_number: int | None = None
    tuple_index: int | None = None
    literal: int | None = None
    comparison: str = ""
    dimensions: tuple[int, ...] = ()
    dot: DotDimensions | None = None
    convolution: Convolution | None = None
    indexing: Indexing | None = None
    # Sizes of the window of a reduce-window or select-and-scatter, and of the transform of an fft.
    window: tuple[int, ...] = ()
    fft_length: tuple[int, ...] = ()
    is_host_transfer: bool = False
    # The scheduler's name for it, if the module contains it: later passes rename and clone.
    scheduling_name: str = ""
    # Of a parameter, if the module has it.
    sharding: Sharding | None = None

    @property
    def is_sync(self) -> bool:
        """True for a collective in start/done form that XLA still runs on the main stream."""
        return '"is_sync":true' in self.backend_config.replace(" ", "")


# A large module has a hundred thousand instructions, and to assign the fields of a frozen object
# takes longer than to decode them. So they are first made as drafts, which are not frozen.
Draft = Any


@cache
def draft_class() -> Callable[..., Draft]:
    """Return the class of drafts; it has the fields of Instruction."""
    parts = [(part.name, Any, field(default=part.default)) for part in fields(Instruction)]
    return make_dataclass("Draft", parts, slots=True, eq=False)


def finished(draft: Draft) -> Instruction:
    """Return the Instruction with the draft's fields; it is the same object, now frozen."""
    draft.__class__ = Instruction
    return draft


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Computation:
    """Instructions in launch order."""

    name: str
    instructions: tuple[Instruction, ...]
    root: str
