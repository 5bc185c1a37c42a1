"""The work of an instruction: its arithmetic operations, and the bytes that it reads and writes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from functools import cache
from typing import Any, cast

from counterpoint.hlo.category import Category, category, category_of_opcode
from counterpoint.hlo.convolution import convolution_flops
from counterpoint.hlo.indexing import is_assignment, scatter_parts
from counterpoint.hlo.model.instruction import DotDimensions, Instruction, Shape, element_bits
from counterpoint.hlo.model.program import Program, cached_on_program, launches
from counterpoint.hlo.schedule import is_done, is_part_of_async

__all__ = ["bytes_accessed", "computed_elements", "dot_dimensions", "flops"]


_NO_ARITHMETIC = (Category.COPY, Category.COLLECTIVE, Category.OTHER, Category.HOST)
_UNCOUNTED = ("reduce-window", "select-and-scatter", "scan", "fft", "cholesky", "triangular-solve",
              "ragged-dot", "scaled-dot", "sort", "topk")  # fmt: skip
_ONLY_MOVING = ("gather", "iota", "broadcast")
_SLICING = ("dynamic-slice", "slice", "gather")
_LAYOUT = {"parameter", "copy"}
_VIEWS = ("bitcast", "reshape")
_DEEPEST = 12
"""Operations by element behind each other that are looked through."""
_WORKSPACE = re.compile(r"__cu(blas|dnn)\$|__hipblas|__miopen")


@cached_on_program
def flops(program: Program, instruction: Instruction) -> int | None:
    """Return the arithmetic operations of one execution; None if they can't be counted.

    Counted by shapes: two per multiply-add of a dot or a convolution, eight if the numbers are
    complex, one per element of everything else. A done has none: its start has the work. Opaque
    custom calls and loops give None, never a guess.
    """
    return _flops(program, instruction)


def _flops(program: Program, instruction: Instruction) -> int | None:
    per_element = _per_element(instruction.opcode)
    if per_element is None:
        return _flops_by_more(program, instruction)
    return computed_elements(program, instruction) if per_element else 0


def computed_elements(program: Program, instruction: Instruction) -> int:
    """Return the elements of its result that are computed: fused, only those that are read."""
    sliced = _sliced(program, instruction, instruction.shape.elements)
    return instruction.shape.elements if sliced is None else min(sliced, instruction.shape.elements)


def _flops_by_more(program: Program, instruction: Instruction) -> int | None:
    if is_done(instruction):
        return 0
    opcode = instruction.opcode.removesuffix("-start")
    if opcode in ("fusion", "async") and instruction.calls:
        # Not cached: members are most of a module, and hardly anything else asks for theirs.
        return _sum([_flops(program, member) for member in program.body(instruction)])
    kind = category(program, instruction)
    if kind is Category.CONTROL or opcode in _UNCOUNTED:
        return None
    operands = [operand.shape for operand in program.operands(instruction)]
    if opcode in ("dot", "convolution", "custom-call"):
        return _multiply_adds(instruction, opcode, operands, kind)
    if kind in _NO_ARITHMETIC or opcode in _ONLY_MOVING:
        return 0
    counted = [instruction.shape]
    if opcode == "reduce":
        counted = operands
    elif opcode == "scatter":  # what it leaves as it is takes none
        counted = operands[len(operands) // 2 + 1 :]
    return sum(shape.elements for shape in counted)


@cache
def _per_element(opcode: str) -> int | None:
    """Return the operations per element of the result, 0 or 1; None if they depend on more."""
    kind = category_of_opcode(opcode)
    special = ("dot", "reduce", "scatter", *_UNCOUNTED)
    if kind in (None, Category.CONTROL) or opcode.removesuffix("-start") in special:
        return None
    return 0 if kind in _NO_ARITHMETIC or opcode.removesuffix("-start") in _ONLY_MOVING else 1


def _multiply_adds(
    instruction: Instruction, opcode: str, operands: list[Shape], kind: Category
) -> int | None:
    if opcode == "custom-call":
        return _custom_call(instruction, operands, kind)
    if opcode == "convolution":
        image = next(iter(operands), None)
        return convolution_flops(instruction, instruction.shape, operands[1:2], image)
    dims = instruction.dot.lhs_contracting if instruction.dot else None
    return _contraction(instruction.shape, operands, dims)


@cached_on_program
def bytes_accessed(program: Program, instruction: Instruction) -> int | None:
    """Return bytes read and written by one execution; None for loops and calls.

    These are operands read plus results written; of a fusion only the slices that it reads or
    writes. A done has none: its start has them.
    """
    if is_done(instruction):
        return 0
    if category(program, instruction) is Category.CONTROL:
        return None
    opcode = instruction.opcode.removesuffix("-start")
    if opcode in ("fusion", "async") and instruction.calls:
        return _called_bytes(program, instruction, opcode)
    operands = [operand.shape for operand in program.operands(instruction)]
    written = _result(instruction)
    if opcode in _SLICING:
        return 2 * written
    if opcode == "dynamic-update-slice":
        return 2 * sum(operand.bytes for operand in operands[1:])
    if opcode == "scatter":
        operands, written = operands[len(operands) // 2 :], _in_place(program, instruction)
    return sum(operand.bytes for operand in operands) + written


def _sum(counts: list[int | None]) -> int | None:
    return None if None in counts else sum(count for count in counts if count is not None)


def _contraction(
    result: Shape, operands: list[Shape], contracting: tuple[int, ...] | None
) -> int | None:
    if contracting is None or not operands:
        return None
    lhs = operands[0].dims
    if any(dim >= len(lhs) for dim in contracting):
        return None
    product = 8 if result.dtype.startswith("c") else 2  # of complex numbers: four real ones
    return product * result.elements * math.prod(lhs[dim] for dim in contracting)


def _custom_call(instruction: Instruction, operands: list[Shape], kind: Category) -> int | None:
    result = next(instruction.shape.leaves, instruction.shape)
    if kind is Category.MATMUL:
        dims = dot_dimensions(instruction)
        return _contraction(result, operands, dims.lhs_contracting if dims else None)
    if kind is Category.CONVOLUTION and len(operands) > 1:
        target = instruction.custom_call_target
        if "BackwardFilter" in target:
            return convolution_flops(instruction, operands[1], [result])
        image = operands[0] if "BackwardInput" in target else result
        return convolution_flops(instruction, image, operands[1:2])
    return None


def dot_dimensions(instruction: Instruction) -> DotDimensions | None:
    """Return the dimensions of a matrix product, also of one by a library; None if there are none.

    None too for a product whose dimensions are not recorded.
    """
    if instruction.dot or instruction.opcode != "custom-call":
        return instruction.dot
    config = _config(instruction).get("gemm_backend_config")
    if not isinstance(config, dict):
        return None
    dims: Any = cast(dict[str, Any], config).get("dot_dimension_numbers")
    try:
        return DotDimensions(
            _dims(dims["lhs_contracting_dimensions"]),
            _dims(dims.get("rhs_contracting_dimensions", ())),
            _dims(dims.get("lhs_batch_dimensions", ())),
            _dims(dims.get("rhs_batch_dimensions", ())),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _dims(written: Iterable[str]) -> tuple[int, ...]:
    return tuple(map(int, written))


def _config(instruction: Instruction) -> dict[str, Any]:
    try:
        config = json.loads(instruction.backend_config)
    except (ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], config) if isinstance(config, dict) else {}


def _result(instruction: Instruction) -> int:
    """Return bytes written: a start is typed (inputs, outputs, ...), a GEMM has a workspace."""
    shape = instruction.shape
    if instruction.opcode.endswith("-start") and len(shape.parts) > 1:
        # An all-reduce alone is typed by its results; a copy puts the result first.
        if instruction.opcode == "all-reduce-start":
            return shape.bytes
        return shape.parts[0 if instruction.opcode == "copy-start" else 1].bytes
    if shape.is_tuple and _WORKSPACE.match(instruction.custom_call_target):
        return sum(part.bytes for part in shape.parts if part.dtype not in ("s8", "u8"))
    return shape.bytes


def _called_bytes(program: Program, instruction: Instruction, opcode: str) -> int | None:
    """Return bytes accessed inside a call: all for an async start, external ones for a fusion."""
    if opcode == "fusion":
        return _fusion_bytes(program, instruction)
    inside = program.body(instruction)
    return _sum([bytes_accessed(program, member) for member in inside if launches(member)])


def _fusion_bytes(program: Program, fusion: Instruction) -> int:
    inside = program.body(fusion)
    read = sum(_read(program, member) for member in inside if member.opcode == "parameter")
    root = program.root(fusion.calls[0])
    results = program.operands(root) if root and root.opcode == "tuple" else [root]
    if any(map(is_part_of_async, inside)):  # and hands its buffers on
        results = [it for it in results if it and _is_computed(it)]
    return read + sum(_written(program, result) for result in results if result)


def _updates_parameter(program: Program, scatter: Instruction) -> bool:
    """Return whether a fused scatter's arrays come from outside: XLA updates them in place."""
    arrays, _ = scatter_parts(program, scatter)
    return all(_behind_views(program, it).opcode == "parameter" for it in arrays)


def _behind_views(program: Program, instruction: Instruction) -> Instruction:
    while instruction.opcode in _VIEWS and instruction.operands:
        instruction = program.operands(instruction)[0]
    return instruction


def _is_computed(instruction: Instruction) -> bool:
    return instruction.opcode != "parameter" and not is_part_of_async(instruction)


def _read(program: Program, parameter: Instruction, depth: int = 0) -> int:
    """Return the bytes a fusion reads of a parameter: only slices, if it has no other users."""
    users = program.users(parameter)
    if any(map(is_part_of_async, users)):
        return 0  # the transfer reads it, which runs beside the fusion
    total = 0
    for user in users:
        first = user.operands[:1] == (parameter.name,)
        if user.opcode in _SLICING and first:
            total += user.shape.bytes
        elif program.users(user) and {it.opcode for it in program.body(user)} == _LAYOUT:
            total += _read(program, user)  # the same in another layout
        elif user.opcode == "fusion":  # TPUs fuse fusions
            inside = (it for it in program.body(user) if it.parameter_number is not None)
            total += sum(
                _read(program, it)
                for it in inside
                if user.operands[it.parameter_number or 0] == parameter.name
            )
        elif user.opcode in _VIEWS and program.users(user) and depth < _DEEPEST:
            total += _read(program, user, depth + 1)
        elif (sliced := _sliced(program, user, parameter.shape.elements)) is not None:
            total += -(-sliced * element_bits(parameter.shape.dtype) // 8)
        elif not (first and _is_updated(program, user)):
            return parameter.shape.bytes
    return min(total, parameter.shape.bytes)


def _sliced(program: Program, value: Instruction, elements: int, depth: int = 0) -> int | None:
    """Return how many elements a fusion computes of a value, if only slices of it are read.

    A fusion computes each element where it is read: of a loss, those that its labels name.
    """
    users = program.users(value)
    by_element = value.opcode in _VIEWS or _per_element(value.opcode) == 1
    if not users or not by_element or value.shape.elements != elements or depth > _DEEPEST:
        return None
    total = 0
    for user in users:
        if user.opcode in _SLICING and user.operands[0] == value.name:
            total += user.shape.elements
        elif (inner := _sliced(program, user, elements, depth + 1)) is not None:
            total += inner
        else:
            return None
    return total


def _is_updated(program: Program, user: Instruction) -> bool:
    """Return whether its first operand is updated in place, which `_written` counts."""
    if user.opcode == "scatter":
        return _updates_parameter(program, user)
    return user.opcode == "dynamic-update-slice"


def _in_place(program: Program, scatter: Instruction) -> int:
    """Return the bytes of a scatter's arrays that it writes, and reads before it adds to them."""
    arrays, updates = scatter_parts(program, scatter)
    touched = sum(
        min(array.shape.bytes, update.shape.bytes)
        for array, update in zip(arrays, updates, strict=False)
    )
    return touched if is_assignment(program, scatter) else 2 * touched


def _written(program: Program, result: Instruction) -> int:
    """Return the bytes a fusion writes: for an in-place update only the changed part."""
    if result.opcode == "fusion" and result.calls:  # TPUs fuse fusions
        root = program.root(result.calls[0])
        if root is not None and root.opcode in ("scatter", "dynamic-update-slice"):
            return _written(program, root)
    if result.opcode == "scatter" and _updates_parameter(program, result):
        return _in_place(program, result)
    seen = result
    while seen.opcode in ("bitcast", "copy", "convert", "reshape") and seen.operands:
        seen = program.operands(seen)[0]
    if seen.opcode == "dynamic-update-slice" and len(seen.operands) > 1:
        return program.operands(seen)[1].shape.bytes
    return _result(result)
