"""The category of an instruction's work, from its fusions and custom-call targets.

A fusion has the category of its heaviest part: one with a dot is a matmul, whatever else it
contains. One that only moves elements (transpose, slice, pad) is a copy.
"""

from __future__ import annotations

import json
import math
import re
from enum import StrEnum
from functools import cache
from pathlib import PurePath
from typing import Any, cast

from counterpoint.hlo.collectives import collective, may_communicate
from counterpoint.hlo.convolution import convolution_flops
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program, cached_on_program, launches
from counterpoint.hlo.origin import provenance, scope
from counterpoint.hlo.phase import has_path_name
from counterpoint.hlo.schedule import is_done, is_part_of_async, start_of

__all__ = [
    "WRITTEN_BY_HAND",
    "Category",
    "bytes_accessed",
    "category",
    "describe",
    "flops",
    "is_local_copy",
    "made_for_tpus",
]


class Category(StrEnum):
    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    COLLECTIVE = "collective"
    COPY = "copy"
    REDUCTION = "reduction"
    ELEMENTWISE = "elementwise"
    SCATTER_GATHER = "scatter/gather"
    SORT = "sort"
    RNG = "rng"
    CUSTOM_CALL = "custom-call"
    CONTROL = "control"
    HOST = "host"
    OTHER = "other"


# Categories of a fusion's parts, heaviest first.
_HEAVIEST_FIRST = (
    Category.COLLECTIVE,
    Category.HOST, Category.ATTENTION, Category.CONVOLUTION, Category.MATMUL,
    Category.CUSTOM_CALL, Category.SORT, Category.REDUCTION, Category.SCATTER_GATHER,
    Category.RNG, Category.ELEMENTWISE, Category.COPY,
)  # fmt: skip

_OPCODES = {
    Category.MATMUL: "dot ragged-dot scaled-dot",
    Category.REDUCTION: "reduce reduce-window batch-norm-training batch-norm-inference "
    "batch-norm-grad scan",
    Category.SCATTER_GATHER: "scatter gather select-and-scatter",
    Category.SORT: "sort topk",
    Category.RNG: "rng rng-bit-generator rng-get-and-update-state",
    Category.COPY: "copy transpose slice dynamic-slice dynamic-update-slice concatenate pad "
    "reverse reshape dynamic-reshape",
    Category.CONTROL: "while conditional call async",
    # Those between devices are collectives.
    Category.HOST: "infeed outfeed send recv",
    Category.OTHER: "parameter constant tuple get-tuple-element bitcast after-all add-dependency "
    "partition-id replica-id opt-barrier optimization-barrier domain get-dimension-size "
    "set-dimension-size fft cholesky triangular-solve",
}
_BY_OPCODE = {word: kind for kind, words in _OPCODES.items() for word in words.split()}

# The first pattern found in the target of a custom call, or in the user's name for it, counts.
_TARGETS = (
    (re.compile(r"fmha|flash|attention|attn|splash", re.IGNORECASE), Category.ATTENTION),
    (re.compile(r"\$conv|conv(Forward|Backward|BiasActivation)|miopen", re.IGNORECASE),
     Category.CONVOLUTION),
    (re.compile(r"gemm|matmul|cublas|hipblas|ragged_dot|gmm|scaled_?dot", re.IGNORECASE),
     Category.MATMUL),
    (re.compile(r"RadixSort|TopK", re.IGNORECASE), Category.SORT),
    (re.compile(r"threefry|rng|philox", re.IGNORECASE), Category.RNG),
    (re.compile(r"callback|MoveToHost|MoveToDevice|HostCompute", re.IGNORECASE), Category.HOST),
    (re.compile(r"norm|softmax", re.IGNORECASE), Category.REDUCTION),
)  # fmt: skip
WRITTEN_BY_HAND = ("tpu_custom_call", "__gpu$xla.gpu.triton", "mosaic_gpu_v2", "mosaic_gpu")
"""Targets of Pallas kernels."""
_GENERIC_TARGETS = ("tpu_custom_call", "triton", "mosaic", "pallas")
_HOST_MEMORY = 5


def category(program: Program, instruction: Instruction) -> Category:
    """Return the category of work; for a done, of what it waits for."""
    return _of_opcode(instruction.opcode) or _category(program, instruction)


@cache
def _of_opcode(opcode: str) -> Category | None:
    """Return the category of all instructions with this opcode; None if it depends on more."""
    plain = opcode.removesuffix("-start")
    if may_communicate(opcode) or plain in ("copy", "convolution", "custom-call"):
        return None
    return _BY_OPCODE.get(plain, Category.ELEMENTWISE)


@cached_on_program
def _category(program: Program, instruction: Instruction) -> Category:
    if is_done(instruction):
        start = start_of(program, instruction)
        return category(program, start) if start else Category.OTHER
    if collective(program, instruction):
        return Category.COLLECTIVE
    opcode = instruction.opcode.removesuffix("-start")
    if opcode == "copy" and _touches_host(program, instruction):
        return Category.HOST
    if opcode in ("fusion", "async"):  # without its body, only a profiler may know the category
        return _of_parts(program, instruction) if instruction.calls else Category.OTHER
    special = {"convolution": _of_convolution, "custom-call": _of_custom_call}.get(opcode)
    return special(instruction) if special else _BY_OPCODE.get(opcode, Category.ELEMENTWISE)


def _of_parts(program: Program, instruction: Instruction) -> Category:
    members = program.body(instruction)
    inside = {category(program, member) for member in members if not is_part_of_async(member)}
    found = (kind for kind in _HEAVIEST_FIRST if kind in inside)
    return next(found, Category.OTHER)


def _of_convolution(instruction: Instruction) -> Category:
    # TPU has no other matrix instruction: its dots are convolutions, without or with a window.
    dims = instruction.convolution
    primitive = scope(instruction.op_name).primitive
    is_dot = primitive.startswith("dot_general") or (dims is not None and not dims.window)
    return Category.MATMUL if is_dot else Category.CONVOLUTION


def _of_custom_call(instruction: Instruction) -> Category:
    target = instruction.custom_call_target
    named = target
    if any(word in target for word in _GENERIC_TARGETS):
        # User-written kernels share one target: only the name identifies them.
        named = f"{target} {instruction.name} {instruction.op_name}"
    found = (kind for pattern, kind in _TARGETS if pattern.search(named))
    return next(found, Category.CUSTOM_CALL)


_TPU = ('"scoped_memory_configs"', '"megacore_config"')
_COPIES = ("copy-start", "slice-start", "dynamic-slice-start", "dynamic-update-slice-start")


def made_for_tpus(program: Program) -> bool:
    """Return whether libtpu scheduled the program."""
    key = "made_for_tpus"
    if key not in program.answers:
        program.answers[key] = any(
            mark in it.backend_config
            for it in program.instructions
            if it.backend_config
            for mark in _TPU
        ) or any(it.custom_call_target == "tpu_custom_call" for it in program.instructions)
    found: bool = program.answers[key]
    return found


def is_local_copy(program: Program, instruction: Instruction) -> bool:
    """Return whether it starts a copy between memories of a TPU's chip, by its DMA engine."""
    return (
        instruction.opcode in _COPIES
        and made_for_tpus(program)
        and not _touches_host(program, instruction)
    )


def _touches_host(program: Program, instruction: Instruction) -> bool:
    shapes: list[Shape] = [
        instruction.shape,
        *(operand.shape for operand in program.operands(instruction)),
    ]
    return any(leaf.memory_space == _HOST_MEMORY for shape in shapes for leaf in shape.leaves)


_NO_ARITHMETIC = (Category.COPY, Category.COLLECTIVE, Category.OTHER, Category.HOST)
_UNCOUNTED = ("reduce-window", "select-and-scatter", "scan", "fft", "cholesky", "triangular-solve",
              "ragged-dot", "scaled-dot", "sort", "topk")  # fmt: skip
_ONLY_MOVING = ("gather", "iota", "broadcast")
_SLICING = ("dynamic-slice", "slice", "gather")
_LAYOUT = {"parameter", "copy"}
_WORKSPACE = re.compile(r"__cu(blas|dnn)\$|__hipblas|__miopen")


@cached_on_program
def flops(program: Program, instruction: Instruction) -> int | None:
    """Return the arithmetic operations of one execution; None if they can't be counted.

    Counted by shapes: two per multiply-add of a dot or a convolution, one per element of everything
    else. A done has none: its start has the work. Opaque custom calls and loops give None, never a
    guess.
    """
    return _flops(program, instruction)


def _flops(program: Program, instruction: Instruction) -> int | None:
    per_element = _per_element(instruction.opcode)
    if per_element is None:
        return _flops_by_more(program, instruction)
    return instruction.shape.elements if per_element else 0


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
    counted = operands if opcode in ("reduce", "scatter") else [instruction.shape]
    return sum(shape.elements for shape in counted)


@cache
def _per_element(opcode: str) -> int | None:
    """Return the operations per element of the result, 0 or 1; None if they depend on more."""
    kind = _of_opcode(opcode)
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
    if opcode in ("dynamic-update-slice", "scatter"):
        return 2 * sum(operand.bytes for operand in operands[1:])
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
    return 2 * result.elements * math.prod(lhs[dim] for dim in contracting)


def _custom_call(instruction: Instruction, operands: list[Shape], kind: Category) -> int | None:
    result = next(instruction.shape.leaves, instruction.shape)
    if kind is Category.MATMUL:
        return _contraction(result, operands, _gemm_contracting(instruction))
    if kind is Category.CONVOLUTION and len(operands) > 1:
        target = instruction.custom_call_target
        if "BackwardFilter" in target:
            return convolution_flops(instruction, operands[1], [result])
        image = operands[0] if "BackwardInput" in target else result
        return convolution_flops(instruction, image, operands[1:2])
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


def _is_computed(instruction: Instruction) -> bool:
    return instruction.opcode != "parameter" and not is_part_of_async(instruction)


def _read(program: Program, parameter: Instruction) -> int:
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
        elif not (user.opcode == "dynamic-update-slice" and first):
            return parameter.shape.bytes
    return min(total, parameter.shape.bytes)


def _written(program: Program, result: Instruction) -> int:
    """Return the bytes a fusion writes: for an in-place update only the changed part."""
    seen = result
    while seen.opcode in ("bitcast", "copy", "convert", "reshape") and seen.operands:
        seen = program.operands(seen)[0]
    if seen.opcode == "dynamic-update-slice" and len(seen.operands) > 1:
        return program.operands(seen)[1].shape.bytes
    return _result(result)


_HEAVY = (Category.MATMUL, Category.CONVOLUTION, Category.ATTENTION, Category.CUSTOM_CALL,
          Category.SORT, Category.REDUCTION, Category.SCATTER_GATHER)  # fmt: skip
_BYWORK = frozenset({
    "broadcast_in_dim", "convert_element_type", "reshape", "transpose", "squeeze", "expand_dims",
    "slice", "copy", "iota", "bitcast_convert_type", "stop_gradient", "while",
    "sharding_constraint",
})  # fmt: skip
_MOST_WORDS = 3


def describe(program: Program, instruction: Instruction) -> str:
    """Describe the user code that became this instruction."""
    where = provenance(program, instruction)
    description = _what(program, instruction, where.primitive)
    if where.scope:
        description += f" in {where.scope}"
    if where.source:
        description += f" ({PurePath(where.source).name})"
    return description


def _what(program: Program, instruction: Instruction, primitive: str) -> str:
    found = collective(program, instruction)
    if found:
        return f"{found.kind} for {primitive}" if primitive else found.kind
    waits_for = start_of(program, instruction) if is_done(instruction) else None
    words = _primitives(program, waits_for or instruction)
    if words:
        return "+".join(words[:_MOST_WORDS])
    return primitive or f"{instruction.opcode} of {instruction.shape}"


def _primitives(program: Program, instruction: Instruction) -> list[str]:
    """Return the primitives fused into it, heavy ones first, without bookkeeping."""
    if instruction.opcode not in ("fusion", "fusion-start"):
        return []
    named = [member for member in program.body(instruction) if has_path_name(member)]
    named.sort(key=lambda member: category(program, member) not in _HEAVY)
    words = list(dict.fromkeys(scope(member.op_name).primitive for member in named))
    return [word for word in words if word and word not in _BYWORK] or words[:1]
