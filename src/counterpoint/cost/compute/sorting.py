"""Prices sorts: cub's radix sort by passes over the bits of a key, XLA's own by its stages.

Without a GPU, XLA:GPU compiles its own sort, also where a GPU would run cub's. Then cub's is
priced.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from counterpoint.cost.compute.memory import memory_rate, whole_bytes
from counterpoint.cost.model import Price, PriceFamily, PriceSource, price_around
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.sorting import runs_cub

if TYPE_CHECKING:
    from counterpoint.cost.compute.machine import ComputeDevice

_START_S: Final = 5e-6
_PASS_START_S: Final = 3e-6
_PASSES_PER_BYTE: Final = 2.5
"""Of cub's sort: reading and writing keys for each byte of them, and counting before."""
_SHARE: Final = 0.6
_OWN_SHARE: Final = 0.6
"""Shares of a plain kernel's rate: cub writes to 256 places, XLA's own compares in pairs."""
_REACH: Final = 0.5
_OWN_REACH: Final = 0.48
_BLOCK: Final = 11  # doublings within one block, 2,048 elements: one pass


def price_sort(program: Program, instruction: Instruction, machine: ComputeDevice) -> Price:
    """Price a sort, alone or in a fusion, or the largest elements of each row."""
    fused = next((it for it in program.body(instruction) if it.opcode == "sort"), None)
    if fused is not None:
        return _sorted(program, fused, machine, _is_read(program, instruction))
    return _sorted(program, instruction, machine, _is_read(program, instruction))


def _is_read(program: Program, sort: Instruction) -> set[int]:
    """Return which of a sort's results something reads: not the count that only keeps order."""
    read = {it.tuple_index for it in program.users(sort) if it.tuple_index is not None}
    return read or set(range(max(1, len(sort.shape.parts))))


def _sorted(
    program: Program, instruction: Instruction, machine: ComputeDevice, read: set[int]
) -> Price:
    keys = [operand.shape for operand in program.operands(instruction)] or [instruction.shape]
    target = instruction.custom_call_target
    if instruction.opcode != "custom-call" and not runs_cub(program, instruction):
        return _own(program, instruction, machine, keys)
    if "TopK" in target:
        return _radix(whole_bytes(program, instruction), 1.0, machine, "the largest of each row")
    width = max(1, keys[0].bytes // max(1, keys[0].elements))
    how = "cub's radix sort" if target else "cub's radix sort, which a GPU runs here"
    sorted_ = [shape for place, shape in enumerate(keys) if place == 0 or place in read]
    moved = 2 * sum(shape.bytes for shape in sorted_)
    return _radix(moved, width * _PASSES_PER_BYTE / 2, machine, how)


def _radix(moved: float, passes: float, machine: ComputeDevice, how: str) -> Price:
    rate = memory_rate(machine, moved) * _SHARE
    seconds = _START_S + _PASS_START_S * passes + moved * passes / rate
    text = f"{how}, {moved / 1e6:.3g} MB in {passes:.3g} passes"
    return price_around(seconds, _REACH, PriceSource.ANALYTIC, PriceFamily.MEMORY, text)


def _own(
    program: Program, instruction: Instruction, machine: ComputeDevice, keys: list[Shape]
) -> Price:
    """Price XLA's own bitonic sort; the stages within a block are one pass."""
    length = max((max(shape.dims, default=1) for shape in keys), default=1)
    if instruction.dimensions and instruction.dimensions[0] < len(keys[0].dims):
        length = keys[0].dims[instruction.dimensions[0]]
    doublings = max(1.0, math.log2(max(2, length)))
    outer = max(0.0, doublings - _BLOCK)
    passes = 1.0 + outer * (outer + 1) / 2 + outer
    moved = whole_bytes(program, instruction)
    moving = moved * passes / (memory_rate(machine, moved) * _OWN_SHARE)
    text = f"{moved / 1e6:.3g} MB in {passes:.3g} passes of XLA's own sort"
    seconds = _START_S + _PASS_START_S * passes + moving
    return price_around(seconds, _OWN_REACH, PriceSource.ANALYTIC, PriceFamily.MEMORY, text)
