"""Prices memory-bound work: elementwise, reductions, copies, with what indices add.

A kernel takes the longer of moving bytes and computing, plus a start. The rate of moving bytes
depends on the access pattern: a transpose or a scatter is slower than a copy. Data that fits in the
last-level cache is likely still there from its producer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from counterpoint.cost.compute.indexed import indexed_costs, with_indices
from counterpoint.cost.model import PriceFamily, PriceSource, price_around
from counterpoint.hlo.category import Category, category
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.work import bytes_accessed, computed_elements

if TYPE_CHECKING:
    from counterpoint.cost.compute.machine import ComputeDevice
    from counterpoint.cost.model import Price

_WEIGHTS: Final = {
    "exponential": 10, "exponential-minus-one": 18, "log": 14, "log-plus-one": 20, "tanh": 16,
    "logistic": 22, "sine": 30, "cosine": 30, "tan": 40, "erf": 25, "cbrt": 30, "atan2": 40,
    "power": 40, "divide": 10, "remainder": 20, "rsqrt": 6, "sqrt": 8,
    "rng-bit-generator": 40, "rng": 60, "rng-get-and-update-state": 1,
    "convert": 1, "multiply": 1, "add": 1, "subtract": 1, "select": 1, "compare": 1,
}  # fmt: skip
"""Instructions per element, in XLA's approximations; rules of thumb."""
_FREE_WORDS: Final = (
    "parameter constant tuple get-tuple-element bitcast broadcast reshape iota copy"
)
_FREE: Final = frozenset(_FREE_WORDS.split())
_IN_PLACE: Final = ("dynamic-update-slice", "scatter")
_OF_A_WINDOW: Final = 2  # loading and adding one element
_ADDRESSES: Final = 3  # loading, storing and addressing one element
_DOUBLE: Final = 4  # double precision: 2 on data center chips, 64 on others


def scalar_operations(program: Program, instruction: Instruction) -> float:
    """Return instructions of one execution, over all threads."""
    fused = instruction.opcode.removesuffix("-start") in ("fusion", "async")
    inside = program.body(instruction) if fused and instruction.calls else (instruction,)
    work = sum(_of(program, member) for member in inside)
    return work + _written(program, instruction) * _ADDRESSES


def _written(program: Program, instruction: Instruction) -> int:
    """Return elements written: for an in-place update only the changed ones."""
    inside = (instruction, *program.body(instruction))
    updates = [_elements(program, member) for member in inside if member.opcode in _IN_PLACE]
    if updates:
        return sum(updates)
    return max((leaf.elements for leaf in instruction.shape.leaves), default=0)


def _elements(program: Program, instruction: Instruction) -> int:
    """Return elements that an instruction computes."""
    operands = [operand.shape.elements for operand in program.operands(instruction)]
    if instruction.opcode == "dynamic-update-slice" and len(operands) > 1:
        return operands[1]
    if instruction.opcode == "scatter":  # what it leaves as it is takes none
        return sum(operands[len(operands) // 2 + 1 :])
    if instruction.opcode == "reduce":
        return max(operands, default=instruction.shape.elements)
    if instruction.opcode == "select-and-scatter":
        return operands[1] if len(operands) > 1 else instruction.shape.elements
    return computed_elements(program, instruction)


def _of(program: Program, instruction: Instruction) -> float:
    if instruction.opcode in _FREE:
        return 0.0
    if instruction.opcode == "fusion" and instruction.calls:
        return scalar_operations(program, instruction)
    weight = _WEIGHTS.get(instruction.opcode, 1)
    if instruction.window:  # each element of the window is loaded, from the cache
        source = program.operands(instruction)[:1]
        most = source[0].shape.elements if source else 1
        weight = _OF_A_WINDOW * min(math.prod(instruction.window), most)
    wide = any(leaf.dtype in ("f64", "c128") for leaf in instruction.shape.leaves)
    return float(_elements(program, instruction) * weight * (_DOUBLE if wide else 1))


_START_S: Final = 2.2e-6
"""Time of a kernel with nothing to do, from launch to end: seen in profiles of tiny ones."""
_WALKS: Final = {
    Category.ELEMENTWISE: 1.0,
    Category.COPY: 0.96,
    Category.REDUCTION: 0.9,
    Category.RNG: 0.9,
}
"""Share of a plain kernel's memory rate.

Measured on 1,500 kernels of a public profile (NVIDIA/JAX-Toolbox, Pax on A100), elsewhere rules of
thumb.
"""
_TILED_TRANSPOSE: Final = 0.8
_LOOSE_TRANSPOSE: Final = 0.45
"""Written element by element across rows: each is a separate memory transaction."""
_COLUMNS: Final = 0.7
"""Adding up across rows: partial results of blocks meet in memory."""
_SCATTER: Final = 0.3
_CACHED: Final = 1.25
"""Speed of the last-level cache relative to memory."""
_CACHE_SHARE: Final = 0.6
"""Usable share of the cache: the rest belongs to other kernels."""
_LITTLE: Final = 10_000  # bytes that one block reads
_REDUCING_S: Final = 1.5e-6
"""Additional time of a reduction, to add up over threads and blocks."""
_ISSUE: Final = 0.9
"""Share of the scalar rate that elementwise code reaches beside address computation."""


def price_memory_bound(program: Program, instruction: Instruction, machine: ComputeDevice) -> Price:
    """Price one of XLA's own kernels."""
    moved = bytes_accessed(program, instruction)
    if moved is None:
        moved = whole_bytes(program, instruction)
    kind = category(program, instruction)
    share, walk = _walk(program, instruction, kind)
    moving = moved / (memory_rate(machine, moved) * share)
    computing = scalar_operations(program, instruction) / _scalar_rate(machine)
    if kind is Category.REDUCTION:
        # Threads that add up wait for each other: memory and arithmetic overlap less.
        start = _START_S + (_REDUCING_S if moved > _LITTLE else 0.0)
        seconds = start + math.hypot(moving, computing)
    else:
        seconds = _START_S + max(moving, computing)
    family = PriceFamily.LAUNCH if moving < _START_S > computing else PriceFamily.MEMORY
    reach = machine.scalars.memory.reach + (0.1 if share > 0.8 else 0.4)
    if family is PriceFamily.LAUNCH:
        reach = 0.4
    rate = f"{moved / 1e6:.3g} MB{walk} at {moved / seconds / 1e9:.0f} GB/s"
    how = rate if moving >= computing else f"{rate}, bound by arithmetic"
    price = price_around(seconds, reach, PriceSource.ANALYTIC, family, how)
    costs = indexed_costs(program, instruction, machine)
    return with_indices(price, costs, machine) if costs else price


def memory_rate(machine: ComputeDevice, moved: float) -> float:
    """Return bytes per second of a plain kernel that accesses this many."""
    cached = moved <= machine.l2_bytes * _CACHE_SHARE
    return machine.memory_rate * (_CACHED if cached else 1.0)


def whole_bytes(program: Program, instruction: Instruction) -> int:
    """Return all bytes it can read and write, once."""
    read = sum(operand.shape.bytes for operand in program.operands(instruction))
    return read + instruction.shape.bytes


def _scalar_rate(machine: ComputeDevice) -> float:
    return machine.cores * machine.lanes * machine.clock_hz * _ISSUE


def _walk(program: Program, instruction: Instruction, kind: Category) -> tuple[float, str]:
    inside = [instruction.opcode, *(member.opcode for member in program.body(instruction))]
    if "select-and-scatter" in inside:
        return _SCATTER, " scattered"
    if _transposes(program, instruction):
        # XLA's own emitter uses shared memory for transposes it recognized.
        tiled = instruction.fusion_kind == "kInput" or instruction.opcode == "copy"
        tiled = tiled and kind is not Category.REDUCTION
        return (_TILED_TRANSPOSE, " transposed") if tiled else (
            _LOOSE_TRANSPOSE, " transposed element by element")  # fmt: skip
    if kind is Category.REDUCTION and _adds_columns(program, instruction):
        return _COLUMNS, " by columns"
    return _WALKS.get(kind, 0.9), ""


def _adds_columns(program: Program, instruction: Instruction) -> bool:
    """Return whether a reduction keeps the dimension that is fastest in memory."""
    for member in (instruction, *program.body(instruction)):
        if member.opcode != "reduce" or not member.operands:
            continue
        source = program.operands(member)[0].shape
        fastest = source.minor_to_major[0] if source.minor_to_major else len(source.dims) - 1
        if source.dims and fastest not in member.dimensions:
            return True
    return False


def _transposes(program: Program, instruction: Instruction) -> bool:
    """Return whether the fastest dimension of a large value changes."""
    for member in (instruction, *program.body(instruction)):
        opcode = member.opcode.removesuffix("-start")
        if opcode == "transpose" and member.dimensions:
            if member.dimensions[-1] != len(member.dimensions) - 1 and _counts(
                member.shape, instruction
            ):
                return True
        elif opcode == "copy":
            sources = program.operands(member)
            if sources and _relaid(sources[0].shape, member.shape):
                return True
    return False


def _counts(shape: Shape, instruction: Instruction) -> bool:
    return shape.bytes * 4 >= instruction.shape.bytes


def _relaid(source: Shape, result: Shape) -> bool:
    """Return whether a copy changes the memory order: another dimension becomes the fastest."""
    if result.is_tuple or not source.minor_to_major or not result.minor_to_major:
        return False
    wide = [dim for dim in source.minor_to_major if source.dims[dim] > 1]
    other = [dim for dim in result.minor_to_major if result.dims[dim] > 1]
    return bool(wide and other) and wide[0] != other[0]
