"""Other forms of an op that may be faster, without what its HLO shows it already does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from counterpoint.hlo.indexing import is_assignment, windows_of
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.provenance import provenance

BetterForm = Callable[[Program, Instruction, str], str]
"""Returns advice for an instruction on a kind of device, such as "gpu"."""

_TOP_K: Final = re.compile(r"top[-_]?k", re.IGNORECASE)
_SHUFFLE: Final = re.compile(r"_shuffle\)|permutation")
_SMALL: Final = ("bf16", "f16")
_WIDE: Final = ("f64", "s64", "u64")
_SMALL_TABLE: Final = 1 << 15
"""Rows up to which a product with a one-hot matrix may be worth a try."""


def is_top_k(name: str) -> bool:
    """Return whether an op is named as one that takes the largest."""
    return _TOP_K.search(name) is not None


def smaller_top_k(device: str) -> str:
    """Return what helps an op that takes the largest already."""
    advice = "take fewer, or take the largest of each block first, and then the largest of those"
    if device == "tpu":  # elsewhere, XLA compiles approx_max_k to the exact one
        advice += "; use jax.lax.approx_max_k if it may miss a few"
    return advice


def better_sort(program: Program, op: Instruction, device: str) -> str:
    """Return what helps a sort."""
    name = provenance(program, op).op_name
    sort = _inside(program, op, "sort")
    if sort is None or is_top_k(name):
        return smaller_top_k(device)
    if _SHUFFLE.search(name):
        return (
            "shuffle on the host while the devices compute, or draw indices with"
            " jax.random.randint if they may repeat"
        )
    return "; ".join(_of_sort(program, sort, device))


def _of_sort(program: Program, sort: Instruction, device: str) -> Iterator[str]:
    approximate = " or jax.lax.approx_max_k" if device == "tpu" else ""
    yield f"if only the largest are needed, take them with jax.lax.top_k{approximate}"
    keys = [operand.shape for operand in program.operands(sort)]
    if keys and sort.dimensions != (_fastest(keys[0].dims, keys[0].minor_to_major),):
        yield "sort along the last axis"
    if len(keys) > 2:
        yield "sort 32-bit keys with an index instead of several arrays"
    elif any(key.dtype in _WIDE for key in keys[:1]):
        yield "sort 32-bit keys"


def _fastest(dims: tuple[int, ...], minor_to_major: tuple[int, ...]) -> int:
    return minor_to_major[0] if minor_to_major else len(dims) - 1


def better_scatter(program: Program, op: Instruction, _device: str) -> str:
    """Return what helps a scatter, or the gradient of a pool."""
    scatter = _inside(program, op, "scatter")
    if scatter is None:
        return "where windows do not overlap, pool by a reshape and a maximum"
    parts = list(_of_scatter(program, scatter))
    return "; ".join(parts) if parts else "write whole rows, and fewer of them"


def _of_scatter(program: Program, scatter: Instruction) -> Iterator[str]:
    adds = _reducer(program, scatter) == "add"
    if adds and any(leaf.dtype in _SMALL for leaf in scatter.shape.leaves):
        yield "add in float32"
    promised = scatter.indexing
    is_sorted = promised is not None and promised.are_sorted
    promises = [
        *(["unique_indices=True"] if promised is None or not promised.are_unique else []),
        *(["indices_are_sorted=True"] if not is_sorted else []),
    ]
    if promises:
        yield _to_promise(promises)
    if not adds:
        return
    if _has_few_rows(program, scatter):
        yield "for the gradient of a lookup, use a product with a one-hot matrix"
    if not is_sorted:
        yield (
            "sort the indices and add up segments"
            " (jax.ops.segment_sum(..., indices_are_sorted=True))"
        )


def _to_promise(promises: Sequence[str]) -> str:
    return f"give {' or '.join(promises)} where {'they hold' if promises[1:] else 'it holds'}"


def better_gather(program: Program, op: Instruction, _device: str) -> str:
    """Return what helps a gather."""
    gather = _inside(program, op, "gather")
    is_sorted = gather is not None and gather.indexing is not None and gather.indexing.are_sorted
    windows = windows_of(program, gather) if gather is not None else None
    promises = ['mode="promise_in_bounds"', *([] if is_sorted else ["indices_are_sorted=True"])]
    parts = [_to_promise(promises)]
    if windows is None or windows.elements == 1:
        parts.append("gather whole rows")
    if gather is not None and _has_few_rows(program, gather):
        parts.append("use a product with a one-hot matrix")
    return "; ".join(parts)


def better_window(program: Program, op: Instruction, _device: str) -> str:
    """Return what helps a cumulative sum or a pool: a window along one axis, or along several."""
    window = _inside(program, op, "reduce-window")
    adds = window is not None and _reducer(program, window) == "add"
    if window is not None and sum(size > 1 for size in window.window) > 1:
        strided = "where windows do not overlap, pool by a reshape and a reduction"
        return f"{strided}; or pool with jax.lax.conv_general_dilated" if adds else strided
    product = ", or a product with a triangular matrix along a short axis" if adds else ""
    return f"use jax.lax.associative_scan{product}"


def better_random(program: Program, op: Instruction, _device: str) -> str:
    """Return what helps a generator of random numbers."""
    fewer = "draw fewer or smaller numbers (bfloat16, one mask for several layers)"
    if any(_inside(program, op, opcode) for opcode in ("rng", "rng-bit-generator")):
        return fewer
    another = 'jax.config.update("jax_default_prng_impl", "rbg")'
    return f"use another generator: {another}; {fewer}"


def better_convolution(program: Program, op: Instruction, _device: str) -> str:
    """Return what helps a convolution."""
    convolution = _inside(program, op, "convolution") or op
    values = [operand.shape.dtype for operand in program.operands(convolution)[:1]]
    smaller = ", in bfloat16" if not values or values[0] in ("f32", "f64") else ""
    return f"keep channels last and a multiple of 8{smaller}"


def better_transform(program: Program, op: Instruction, _device: str) -> str:
    """Return what helps a Fourier transform."""
    transform = _inside(program, op, "fft")
    lengths = transform.fft_length if transform is not None else ()
    smooth = lengths and all(_is_smooth(length) for length in lengths)
    batched = "batch the transforms"
    return batched if smooth else f"use lengths that are products of small primes, and {batched}"


def _is_smooth(length: int) -> bool:
    for prime in (2, 3, 5, 7):
        while length > 1 and length % prime == 0:
            length //= prime
    return length <= 1


def _inside(program: Program, op: Instruction, opcode: str) -> Instruction | None:
    """Return the instruction of an opcode that is the op, or in its body."""
    return next((it for it in (op, *program.body(op)) if it.opcode == opcode), None)


def _reducer(program: Program, instruction: Instruction) -> str | None:
    """Return the opcode that joins two values; None for a scatter that replaces them."""
    if instruction.opcode == "scatter" and is_assignment(program, instruction):
        return None
    root = program.root(instruction.calls[0]) if instruction.calls else None
    return root.opcode if root is not None else None


def _has_few_rows(program: Program, instruction: Instruction) -> bool:
    """Return whether it moves rows of a table that has few of them."""
    windows = windows_of(program, instruction)
    if windows is None or windows.elements <= 1:
        return False
    return windows.array.elements <= _SMALL_TABLE * windows.elements
