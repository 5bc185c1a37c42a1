"""What kind of work an instruction is, looking into fusions and at the targets of custom calls.

A fusion is what its heaviest part is: one with a dot is a matmul, whatever else it does on the way.
One that only moves elements about (transpose, slice, pad) is a copy.
"""

from __future__ import annotations

import re
from enum import StrEnum

from counterpoint.hlo.asyncs import is_done, start_of
from counterpoint.hlo.collective import collective
from counterpoint.hlo.instruction import Instruction
from counterpoint.hlo.memory import remembered
from counterpoint.hlo.program import Program
from counterpoint.hlo.scope import scope
from counterpoint.hlo.shape import Shape


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


# What a fusion is called after, heaviest first.
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

# The first pattern found in the target of a custom call, or in the name the user gave it, counts.
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
_GENERIC_TARGETS = ("tpu_custom_call", "triton", "mosaic", "pallas")
_HOST_MEMORY = 5


@remembered
def category(program: Program, instruction: Instruction) -> Category:
    """What kind of work it is; for a done, what it waits for."""
    if is_done(instruction):
        start = start_of(program, instruction)
        return category(program, start) if start else Category.OTHER
    if collective(program, instruction):
        return Category.COLLECTIVE
    opcode = instruction.opcode.removesuffix("-start")
    if opcode == "copy" and _touches_host(program, instruction):
        return Category.HOST
    if opcode in ("fusion", "async"):  # without its body, only a profiler may know what it is
        return _of_parts(program, instruction) if instruction.calls else Category.OTHER
    special = {"convolution": _of_convolution, "custom-call": _of_custom_call}.get(opcode)
    return special(instruction) if special else _BY_OPCODE.get(opcode, Category.ELEMENTWISE)


def _of_parts(program: Program, instruction: Instruction) -> Category:
    inside = {category(program, it) for it in program.body(instruction)}
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
        # Kernels written by users share one target: what they are is in the name only.
        named = f"{target} {instruction.name} {instruction.op_name}"
    found = (kind for pattern, kind in _TARGETS if pattern.search(named))
    return next(found, Category.CUSTOM_CALL)


def _touches_host(program: Program, instruction: Instruction) -> bool:
    shapes: list[Shape] = [instruction.shape, *(it.shape for it in program.operands(instruction))]
    return any(leaf.memory_space == _HOST_MEMORY for it in shapes for leaf in it.leaves)
