"""Prices sorts: cub's radix sort by passes over the bits of a key, XLA's own by its stages.

Without a GPU, XLA:GPU compiles its own sort, also where a GPU would run cub's (it says so in its
log). Then cub's is priced. Where XLA takes cub's was found by compiling for H100 with jaxlib 0.10.2
and xla_gpu_deviceless_cub_mode=DEVICELESS_CUB_NO_FALLBACK: keys alone or with one value each, of
some 22,000 on, or many rows of more than 8,192.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from counterpoint.cost.compute.memory import memory_rate, whole_bytes
from counterpoint.cost.model import Price, PriceFamily, PriceSource, price_around
from counterpoint.hlo import Instruction, Program, Shape

if TYPE_CHECKING:
    from counterpoint.cost.compute.machine import ComputeDevice

_START_S: Final = 5e-6
_PASS_START_S: Final = 3e-6
_PASSES_PER_BYTE: Final = 2.5
"""Of cub's sort: reading and writing keys for each byte of them, and counting before."""
_SHARE: Final = 0.6
_OWN_SHARE: Final = 0.6
"""Shares of a plain kernel's rate: cub writes to 256 places at once, XLA's own compares in pairs."""
_REACH: Final = 0.5
_OWN_REACH: Final = 0.48
_FEW: Final = 22_000
_ROWS: Final = 64
_LONG_ROW: Final = 8_192
_KEYS: Final = 2  # operands: keys, and what moves with them
_BLOCK: Final = 11  # doublings within one block, 2,048 elements: one pass
_FIRST_KEYS: Final = {0, 1}  # parameters of a comparison


def price_sort(program: Program, instruction: Instruction, machine: ComputeDevice) -> Price:
    """Price a sort, or the largest elements of each row."""
    keys = [operand.shape for operand in program.operands(instruction)] or [instruction.shape]
    target = instruction.custom_call_target
    if instruction.opcode != "custom-call" and not runs_cub(program, instruction):
        return _own(program, instruction, machine, keys)
    if "TopK" in target:
        return _radix(whole_bytes(program, instruction), 1.0, machine, "the largest of each row")
    width = max(1, keys[0].bytes // max(1, keys[0].elements))
    how = "cub's radix sort" if target else "cub's radix sort, which a GPU runs here"
    moved = sum(leaf.bytes for shape in keys for leaf in shape.leaves) * 2
    return _radix(moved, width * _PASSES_PER_BYTE / 2, machine, how)


def runs_cub(program: Program, sort: Instruction) -> bool:
    """Return whether XLA on a GPU would run cub's sort for what it compiled to its own here."""
    keys = [operand.shape for operand in program.operands(sort)]
    if sort.opcode != "sort" or not 0 < len(keys) <= _KEYS or keys[0].dtype == "pred":
        return False
    dims, order = keys[0].dims, keys[0].minor_to_major
    if not dims or sort.dimensions[-1:] != (order[0] if order else len(dims) - 1,):
        return False
    length = dims[sort.dimensions[-1]]
    rows = keys[0].elements // max(1, length)
    enough = length > _FEW if rows == 1 else rows >= _ROWS and length > _LONG_ROW
    return enough and _compares_keys_alone(program, sort)


def _compares_keys_alone(program: Program, sort: Instruction) -> bool:
    body = program.computations[sort.calls[0]].instructions if sort.calls else ()
    read = {it.parameter_number for it in body if it.parameter_number is not None and
            program.users(it)}  # fmt: skip
    return read <= _FIRST_KEYS


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
