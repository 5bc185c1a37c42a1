"""The category of an instruction's work, from its fusions and custom-call targets.

A fusion has the category of its heaviest part: one with a dot is a matmul, whatever else it
contains. One that only moves elements (transpose, slice, pad) is a copy.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache

from counterpoint.hlo.collectives import collective, may_communicate
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program, cached_on_program
from counterpoint.hlo.provenance import scope
from counterpoint.hlo.schedule import is_done, is_part_of_async, start_of

__all__ = ["WRITTEN_BY_HAND", "Category", "category", "is_local_copy", "made_for_tpus"]

WRITTEN_BY_HAND = ("tpu_custom_call", "__gpu$xla.gpu.triton", "mosaic_gpu_v2", "mosaic_gpu")
"""Targets of Pallas kernels."""
_GENERIC_TARGETS = ("tpu_custom_call", "triton", "mosaic", "pallas")
_HOST_MEMORY = 5

_TPU = ('"scoped_memory_configs"', '"megacore_config"')
_COPIES = ("copy-start", "slice-start", "dynamic-slice-start", "dynamic-update-slice-start")


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
    # Of cuBLAS, but no product: blocks depend on each other.
    (re.compile(r"triangularSolve|trsm", re.IGNORECASE), Category.CUSTOM_CALL),
    (re.compile(r"gemm|matmul|cublas|hipblas|ragged_dot|gmm|scaled_?dot", re.IGNORECASE),
     Category.MATMUL),
    (re.compile(r"RadixSort|TopK|cub_sort", re.IGNORECASE), Category.SORT),
    (re.compile(r"threefry|rng|philox", re.IGNORECASE), Category.RNG),
    (re.compile(r"callback|MoveToHost|MoveToDevice|HostCompute", re.IGNORECASE), Category.HOST),
    (re.compile(r"norm|softmax", re.IGNORECASE), Category.REDUCTION),
)  # fmt: skip


def category(program: Program, instruction: Instruction) -> Category:
    """Return the category of work; for a done, of what it waits for."""
    return category_of_opcode(instruction.opcode) or _category(program, instruction)


@cache
def category_of_opcode(opcode: str) -> Category | None:
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
    kinds = (kind for kind in _HEAVIEST_FIRST if kind in inside)
    return next(kinds, Category.OTHER)


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
    kinds = (kind for pattern, kind in _TARGETS if pattern.search(named))
    return next(kinds, Category.CUSTOM_CALL)


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
    answer: bool = program.answers[key]
    return answer


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
