"""How much work an instruction is: floating-point operations and bytes of memory traffic.

Operations are counted by shapes: two per multiply-add of a dot or a convolution, one per element
of everything else. Bytes are operands read plus results written, in a fusion only the slices that
it reads or writes. None where the module does not say (opaque custom calls, loops), never a guess.
A done costs nothing: its start carries the work.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, cast

from counterpoint.hlo.asyncs import is_done
from counterpoint.hlo.category import Category, category
from counterpoint.hlo.instruction import Instruction
from counterpoint.hlo.launches import launches
from counterpoint.hlo.memory import remembered
from counterpoint.hlo.program import Program
from counterpoint.hlo.shape import Shape

_NO_ARITHMETIC = (Category.COPY, Category.COLLECTIVE, Category.OTHER, Category.HOST)
_UNCOUNTED = ("reduce-window", "select-and-scatter", "scan", "fft", "cholesky", "triangular-solve",
              "ragged-dot", "scaled-dot", "sort", "topk")  # fmt: skip
_SLICING = ("dynamic-slice", "slice", "gather")
_WORKSPACE = re.compile(r"__cu(blas|dnn)\$|__hipblas|__miopen")


@remembered
def flops(program: Program, instruction: Instruction) -> int | None:
    """Arithmetic operations of one execution; None when they can't be counted."""
    if is_done(instruction):
        return 0
    opcode = instruction.opcode.removesuffix("-start")
    if opcode in ("fusion", "async") and instruction.calls:
        return _sum([flops(program, it) for it in program.body(instruction)])
    kind = category(program, instruction)
    if kind is Category.CONTROL or opcode in _UNCOUNTED:
        return None
    operands = [it.shape for it in program.operands(instruction)]
    if opcode in ("dot", "convolution", "custom-call"):
        return _multiply_adds(instruction, opcode, operands, kind)
    if kind in _NO_ARITHMETIC or opcode in ("gather", "iota", "broadcast"):
        return 0
    counted = operands if opcode in ("reduce", "scatter") else [instruction.shape]
    return sum(shape.elements for shape in counted)


def _multiply_adds(
    instruction: Instruction, opcode: str, operands: list[Shape], kind: Category
) -> int | None:
    if opcode == "custom-call":
        return _custom_call(instruction, operands, kind)
    if opcode == "convolution":
        return _convolution(instruction, instruction.shape, operands[1:2])
    dims = instruction.dot.lhs_contracting if instruction.dot else None
    return _contraction(instruction.shape, operands, dims)


@remembered
def bytes_accessed(program: Program, instruction: Instruction) -> int | None:
    """Bytes read and written by one execution; None for loops and calls."""
    if is_done(instruction):
        return 0
    if category(program, instruction) is Category.CONTROL:
        return None
    opcode = instruction.opcode.removesuffix("-start")
    if opcode in ("fusion", "async") and instruction.calls:
        return _called_bytes(program, instruction, opcode)
    operands = [it.shape for it in program.operands(instruction)]
    written = _result(instruction)
    if opcode in _SLICING:
        return 2 * written
    if opcode in ("dynamic-update-slice", "scatter"):
        return 2 * sum(it.bytes for it in operands[1:])
    return sum(it.bytes for it in operands) + written


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
    return 2 * result.elements * math.prod(lhs[dim] for dim in contracting)


def _convolution(instruction: Instruction, result: Shape, kernels: list[Shape]) -> int | None:
    dims = instruction.convolution
    if dims is None or not kernels or dims.kernel_output_feature >= len(kernels[0].dims):
        return None
    outputs = kernels[0].dims[dims.kernel_output_feature]
    return 2 * result.elements * kernels[0].elements // outputs if outputs else 0


def _custom_call(instruction: Instruction, operands: list[Shape], kind: Category) -> int | None:
    result = next(instruction.shape.leaves, instruction.shape)
    if kind is Category.MATMUL:
        return _contraction(result, operands, _gemm_contracting(instruction))
    if kind is Category.CONVOLUTION and len(operands) > 1:
        target = instruction.custom_call_target
        if "BackwardFilter" in target:
            return _convolution(instruction, operands[1], [result])
        image = operands[0] if "BackwardInput" in target else result
        return _convolution(instruction, image, operands[1:2])
    return None


def _gemm_contracting(instruction: Instruction) -> tuple[int, ...] | None:
    if instruction.dot:
        return instruction.dot.lhs_contracting
    config = _config(instruction).get("gemm_backend_config")
    if not isinstance(config, dict):
        return None
    dims: Any = cast(dict[str, Any], config).get("dot_dimension_numbers")
    try:
        return tuple(int(dim) for dim in dims["lhs_contracting_dimensions"])
    except (KeyError, TypeError, ValueError):
        return None


def _config(instruction: Instruction) -> dict[str, Any]:
    try:
        found = json.loads(instruction.backend_config)
    except (ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def _result(instruction: Instruction) -> int:
    """Bytes written: a start is typed (inputs, outputs, ...), a GEMM carries its workspace."""
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
    """A fusion keeps to itself what passes within; what an async start calls does not."""
    if opcode == "fusion":
        return _fusion_bytes(program, instruction)
    inside = program.body(instruction)
    return _sum([bytes_accessed(program, it) for it in inside if launches(it)])


def _fusion_bytes(program: Program, fusion: Instruction) -> int:
    inside = program.body(fusion)
    read = sum(_read(program, it) for it in inside if it.opcode == "parameter")
    root = program.root(fusion.calls[0])
    results = program.operands(root) if root and root.opcode == "tuple" else [root]
    return read + sum(_written(program, it) for it in results if it)


def _read(program: Program, parameter: Instruction) -> int:
    """What a fusion reads of a parameter: only slices of it, when nothing else uses it."""
    users = program.users(parameter)
    total = 0
    for user in users:
        first = user.operands[:1] == (parameter.name,)
        if user.opcode in _SLICING and first:
            total += user.shape.bytes
        elif not (user.opcode == "dynamic-update-slice" and first):
            return parameter.shape.bytes
    return min(total, parameter.shape.bytes)


def _written(program: Program, result: Instruction) -> int:
    """What a fusion writes: of an update in place only what changes."""
    seen = result
    while seen.opcode in ("bitcast", "copy", "convert", "reshape") and seen.operands:
        seen = program.operands(seen)[0]
    if seen.opcode == "dynamic-update-slice" and len(seen.operands) > 1:
        return program.operands(seen)[1].shape.bytes
    return result.shape.bytes
