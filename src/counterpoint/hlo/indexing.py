"""Gathers and scatters: how many windows they move, where, and how the windows lie in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from counterpoint.hlo.model.instruction import Instruction, Shape, element_bits
from counterpoint.hlo.model.program import Program

__all__ = ["Windows", "is_assignment", "scatter_parts", "windows_of"]


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows that a gather reads or a scatter writes, at indices that the data decide."""

    array: Shape  # that the indices point into
    count: int
    elements: int  # of each
    run_bytes: int  # neighbors in memory, of which a window has one or several

    @property
    def bytes(self) -> int:
        """Bytes of all windows, in the array's type."""
        return -(-self.count * self.elements * element_bits(self.array.dtype) // 8)

    @property
    def runs(self) -> int:
        return -(-self.bytes // self.run_bytes) if self.run_bytes else 0


def windows_of(program: Program, instruction: Instruction) -> Windows | None:
    """Return the windows of a gather or scatter; None for other instructions."""
    operands = [operand.shape for operand in program.operands(instruction)]
    if instruction.indexing is None or len(operands) < 2:
        return None
    moved = instruction.shape if instruction.opcode == "gather" else operands[-1]
    array = operands[0]
    inner = [moved.dims[dim] for dim in instruction.indexing.window_dims if dim < len(moved.dims)]
    elements = math.prod(inner)
    count = moved.elements // elements if elements else 0
    left_out = set(instruction.indexing.left_out)
    kept = [dim for dim in range(len(array.dims)) if dim not in left_out]
    sizes = dict.fromkeys(range(len(array.dims)), 1) | dict(zip(kept, inner, strict=False))
    return Windows(array, count, elements, _run(array, sizes))


def scatter_parts(
    program: Program, scatter: Instruction
) -> tuple[list[Instruction], list[Instruction]]:
    """Return a scatter's arrays and the updates of each; the indices are between them."""
    operands = list(program.operands(scatter))
    arrays = len(operands) // 2
    return operands[:arrays], operands[arrays + 1 :]


def is_assignment(program: Program, scatter: Instruction) -> bool:
    """Return whether an update replaces what was there, without reading it."""
    root = program.root(scatter.calls[0]) if scatter.calls else None
    return root is not None and root.opcode == "parameter"


def _run(array: Shape, sizes: dict[int, int]) -> int:
    """Return the bytes of a window that are neighbors in memory."""
    order = array.minor_to_major or tuple(reversed(range(len(array.dims))))
    run = 1
    for dim in order:
        run *= sizes[dim]
        if sizes[dim] < array.dims[dim]:
            break
    return max(1, run * element_bits(array.dtype) // 8)
