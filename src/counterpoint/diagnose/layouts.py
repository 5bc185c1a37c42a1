"""Kernels whose only work is another order in memory: copies, transposes, fusions of nothing else.

A copy into the same order is none of them: it has another reason (a buffer that must not change, a
loop's state, another memory). A fusion that converts or computes on the way would run anyway.
"""

from __future__ import annotations

from typing import Final

from counterpoint.hlo import Instruction, Program, Shape

_VIEW_WORDS: Final = "parameter constant bitcast reshape tuple get-tuple-element copy transpose"
_VIEWS: Final = frozenset(_VIEW_WORDS.split())


def moves_only(program: Program, instruction: Instruction) -> bool:
    """Whether it does nothing but write its operand in another order."""
    inside = program.body(instruction) if instruction.opcode == "fusion" else (instruction,)
    if not inside or any(it.opcode not in _VIEWS for it in inside):
        return False
    return any(_reorders(program, it) for it in inside)


def _reorders(program: Program, it: Instruction) -> bool:
    sources = program.operands(it)
    if it.opcode not in ("copy", "transpose") or not sources:
        return False
    source, result = sources[0].shape, it.shape
    if it.opcode == "copy":
        return _order(source) != _order(result)
    # Dimension d of the result is dimensions[d] of the operand: the order of both in the latter's.
    as_source = [it.dimensions[dim] for dim in _order(result) if dim < len(it.dimensions)]
    return as_source != _order(source)


def _order(shape: Shape) -> list[int]:
    """Dimensions that are more than one long, the fastest first; without a layout, the usual."""
    order = shape.minor_to_major or tuple(reversed(range(len(shape.dims))))
    return [dim for dim in order if dim < len(shape.dims) and shape.dims[dim] > 1]
