"""Prices anything that is not a collective, by its kind of work."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from counterpoint.cost.compute.attention import price_attention
from counterpoint.cost.compute.gemm import gemms, price_gemm, sum_of
from counterpoint.cost.compute.machine import ComputeDevice
from counterpoint.cost.compute.memory import memory_rate, price_memory_bound, whole_bytes
from counterpoint.cost.model import FREE, Price, PriceFamily, PriceSource, price_around
from counterpoint.cost.tables.kernel_toml import amount
from counterpoint.hlo import Instruction, Program
from counterpoint.hlo.model import element_bits
from counterpoint.hlo.work import Category, bytes_accessed, category, flops

if TYPE_CHECKING:
    from counterpoint.cost.tables.gemm_csv import GemmTable
    from counterpoint.cost.tables.kernel_toml import Kernel, KernelTable

_HOST_START_S: Final = 8e-6
"""A transfer over PCIe: the time of cudaMemcpyAsync for a few bytes."""
_HOST_REACH: Final = 0.25
_HOST_MEMORY: Final = 5
_SLICES: Final = ("dynamic-slice", "dynamic-update-slice", "slice", "fusion", "async")


def is_offloaded(program: Program, instruction: Instruction) -> bool:
    """Return whether it reads or writes slices of a value in the host's memory."""
    if instruction.opcode.removesuffix("-start") not in _SLICES:
        return False
    shapes = [instruction.shape, *(operand.shape for operand in program.operands(instruction))]
    return any(leaf.memory_space == _HOST_MEMORY for value in shapes for leaf in value.leaves)


def price_host_transfer(
    program: Program, instruction: Instruction, machine: ComputeDevice
) -> Price:
    """Price a transfer to or from pinned memory of the host."""
    moved = _moved(program, instruction)
    seconds = _HOST_START_S + moved / machine.host_bytes_per_s
    how = f"{moved / 1e6:.3g} MB at {machine.host_bytes_per_s / 1e9:.0f} GB/s"
    return price_around(seconds, _HOST_REACH, PriceSource.ANALYTIC, PriceFamily.HOST, how)


def _moved(program: Program, instruction: Instruction) -> int:
    """Return bytes on the link: the slice, or the larger side of a copy."""
    if is_offloaded(program, instruction):
        return (bytes_accessed(program, instruction) or 0) // 2
    read = sum(operand.shape.bytes for operand in program.operands(instruction))
    return max(read, *(leaf.bytes for leaf in instruction.shape.leaves), 0)


_KERNEL_START_S: Final = 2.5e-6
_TABLE_REACH: Final = {"time": 0.05, "work": 0.25}


def price_described(
    program: Program,
    instruction: Instruction,
    machine: ComputeDevice,
    tables: Sequence[KernelTable],
) -> Price | None:
    """Price a custom call by the user's tables; None if it is not one, or in no table."""
    if not instruction.custom_call_target:
        return None
    description = f"{instruction.custom_call_target} {instruction.name} {instruction.op_name}"
    for table in tables:
        kernel = table.find(description)
        price = _price(program, instruction, machine, kernel, table.origin) if kernel else None
        if price is not None:
            return price
    return None


def _price(
    program: Program, instruction: Instruction, machine: ComputeDevice, kernel: Kernel, origin: str
) -> Price | None:
    args = [operand.shape.dims for operand in program.operands(instruction)]
    outs = [leaf.dims for leaf in instruction.shape.leaves]
    if kernel.us is not None:
        us = amount(kernel.us, args, outs)
        how = f"{origin}: {kernel.match.pattern}"
        if us is None:
            return None
        return price_around(
            us * 1e-6, _TABLE_REACH["time"], PriceSource.USER_TABLE, PriceFamily.CUSTOM, how
        )
    flops = amount(kernel.flops or 0.0, args, outs)
    moved = amount(kernel.bytes or 0.0, args, outs)
    if flops is None or moved is None:
        return None
    computing = flops / (machine.peak(kernel.dtype) * kernel.efficiency)
    seconds = _KERNEL_START_S + max(computing, moved / machine.memory_rate)
    how = f"{origin}: {kernel.match.pattern}, {flops / 1e9:.3g} GFLOP, {moved / 1e6:.3g} MB"
    return price_around(
        seconds, _TABLE_REACH["work"], PriceSource.USER_TABLE, PriceFamily.CUSTOM, how
    )


_CALL_START_S: Final = 2.5e-6
_LIKELY: Final = 2.0
"""Likely multiple of the memory bound for an unknown kernel; the upper bound is far higher."""
_MOST: Final = 16.0
_MOST_START_S: Final = 30e-6
_MEMORY_BOUND: Final = re.compile(
    r"norm|softmax|cast|transpose|dequant|quant|amax|act_lu|dact|bias|gelu|relu|silu|swiglu|rope|"
    r"rotary|dropout|xent|cross_entropy|dbias|scale|permut|topk|RadixSort|\$assert|cub_",
    re.IGNORECASE,
)
"""Kernels of Transformer Engine, cuDNN and others that read and write each element about once."""
_MEMORY_REACH: Final = 0.35
_NO_WORK_WORDS: Final = (
    "AllocateBuffer Sharding SPMDFullToShardShape SPMDShardToFullShape annotate_device_placement "
    "PinToDevice LayoutConstraint MoveToDevice MoveToHost AssumeGatherIndicesInBound "
    "xla.gpu.ext.nop Pin Unpin CreateBuffer"
)
_NO_WORK: Final = frozenset(_NO_WORK_WORDS.split())
"""Markers for the compiler that launch nothing."""
_CALLBACK_S: Final = (20e-6, 300e-6, 10e-3)
"""A call into Python on the host: minimum, likely, maximum."""


def price_custom_call(program: Program, instruction: Instruction, machine: ComputeDevice) -> Price:
    """Price one execution; never free if a kernel runs.

    Tried in order: pricers that a user registered, then those for its kind (attention, convolution,
    sorts, norms and other memory-bound kernels). If none knows it, its operands and results cross
    memory at least once, and at most it takes many times that.
    """
    price = price_registered(program, instruction, machine)
    if price is not None:
        return price
    target = instruction.custom_call_target
    if target in _NO_WORK:
        return FREE
    kind = category(program, instruction)
    if kind is Category.HOST:
        return _host_call(program, instruction, machine)
    known = _known(program, instruction, machine, kind)
    return (
        known
        or _decomposition(program, instruction, machine)
        or bound(program, instruction, machine)
    )


def _known(
    program: Program, instruction: Instruction, machine: ComputeDevice, kind: Category
) -> Price | None:
    if kind is Category.ATTENTION:
        return price_attention(program, instruction, machine)
    if kind is Category.CONVOLUTION:
        return price_convolution(program, instruction, machine)
    if kind is Category.SORT:
        return price_memory_bound(program, instruction, machine)
    description = f"{instruction.custom_call_target} {instruction.name}"
    if _MEMORY_BOUND.search(description):
        moved = whole_bytes(program, instruction)
        seconds = _CALL_START_S + moved / machine.memory_rate
        how = f"{moved / 1e6:.3g} MB read or written once"
        return price_around(seconds, _MEMORY_REACH, PriceSource.ANALYTIC, PriceFamily.CUSTOM, how)
    return None


_DECOMPOSITIONS: Final = (
    (r"syev|heev|eigh", 9, 40e-6),
    (r"gesvd|svd", 22, 400e-6),
    (r"geqrf|(or|un)gqr|householder|sytrd|ormqr", 2, 10e-6),
    (r"potrf|cholesky|getrf|(^| |_)lu\b|triangular|gtsv", 1, 2e-6),
)
"""Operations for a matrix of n x n, in n^3, and the time that each of its columns takes."""
_DECOMPOSING: Final = (4, 0.1, 0.02)
"""The time of a column may be a fourth or four times of it; likely and lowest share of the peak."""


def _decomposition(
    program: Program, instruction: Instruction, machine: ComputeDevice
) -> Price | None:
    """Price a decomposition of matrices, which goes from column to column; None for other work.

    Rules of thumb for cuSOLVER. Several matrices are decomposed together, or one after another.
    """
    described = f"{instruction.custom_call_target} {instruction.name} {instruction.opcode}"
    found = next((it for it in _DECOMPOSITIONS if re.search(it[0], described)), None)
    shapes = [operand.shape for operand in program.operands(instruction)]
    matrices = max(
        (it for it in shapes if len(it.dims) > 1), key=lambda it: it.elements, default=None
    )
    if found is None or matrices is None or not matrices.elements:
        return None
    _, operations, column_s = found
    side, other = sorted(matrices.dims[-2:])
    count = matrices.elements // (side * other)
    apart, likely, slowest = _DECOMPOSING
    least = operations * side * matrices.elements / machine.peak(_type(matrices.dtype))
    one_s = side * column_s
    return Price(
        one_s * count**0.5 + least / likely,
        one_s / apart + least,
        one_s * apart * count + least / slowest,
        PriceSource.BOUND,
        PriceFamily.CUSTOM,
        f"decomposition: {count:,} x {side:,} columns, rule of thumb",
    )


def bound(program: Program, instruction: Instruction, machine: ComputeDevice) -> Price:
    """Return bounds for unknown work, from the bytes it accesses."""
    crossing = whole_bytes(program, instruction) / machine.memory_bytes_per_s
    low = 1e-6 + crossing
    return Price(
        _CALL_START_S + crossing * _LIKELY,
        low,
        _MOST_START_S + crossing * _MOST,
        PriceSource.BOUND,
        PriceFamily.CUSTOM,
        "unknown kernel: its operands and results cross memory 1 to 16 times",
    )


def _host_call(program: Program, instruction: Instruction, machine: ComputeDevice) -> Price:
    low, likely, high = _CALLBACK_S
    moving = whole_bytes(program, instruction) / machine.host_bytes_per_s
    return Price(
        likely + moving,
        low + moving,
        high + moving,
        PriceSource.BOUND,
        PriceFamily.CUSTOM,
        f"waits for Python: {low * 1e3:g} to {high * 1e3:g} ms",
    )


_UNKNOWN_WORDS: Final = "fft cholesky triangular-solve scan send recv infeed outfeed"
_UNKNOWN: Final = frozenset(_UNKNOWN_WORDS.split())
_WALKED: Final = ("while", "conditional", "call", "call-start", "async-start")


def price_compute(
    program: Program,
    instruction: Instruction,
    machine: ComputeDevice,
    tables: Sequence[GemmTable] = (),
) -> Price:
    """Price one execution of an instruction that launches work and is not a collective."""
    opcode = instruction.opcode.removesuffix("-start")
    if instruction.opcode in _WALKED:
        return FREE
    kind = category(program, instruction)
    if kind is Category.MATMUL:
        price = _matmul(program, instruction, machine, tables)
        if price is not None:
            return price
    if opcode == "custom-call":
        return price_custom_call(program, instruction, machine)
    special = _special(program, instruction, machine, kind)
    if special is not None:
        return special
    if opcode in _UNKNOWN or kind is Category.CONTROL:
        decomposition = _decomposition(program, instruction, machine)
        return decomposition or bound(program, instruction, machine)
    return price_memory_bound(program, instruction, machine)


def _matmul(
    program: Program, instruction: Instruction, machine: ComputeDevice, tables: Sequence[GemmTable]
) -> Price | None:
    """Price a GEMM with its fused parts: the longer of products and memory."""
    if instruction.custom_call_target:
        own = price_registered(program, instruction, machine)
        if own is not None:
            return own
    found = list(gemms(program, instruction))
    if not found:
        return None
    price = sum_of([price_gemm(gemm, machine, tables) for gemm in found])
    if not instruction.opcode.startswith("fusion"):
        return price
    moved = bytes_accessed(program, instruction) or 0
    moving = moved / memory_rate(machine, moved)
    if moving <= price.seconds:
        return price
    slower = price.times(moving / price.seconds)
    return replace(slower, how=f"{price.how}, bound by {moved / 1e6:.3g} MB of memory")


def _special(
    program: Program, instruction: Instruction, machine: ComputeDevice, kind: Category
) -> Price | None:
    if kind is Category.CONVOLUTION:
        return price_convolution(program, instruction, machine)
    if kind is Category.HOST and instruction.opcode.startswith("copy"):
        return price_host_transfer(program, instruction, machine)
    if kind is Category.COPY and is_offloaded(program, instruction):
        return price_host_transfer(program, instruction, machine)
    if kind in (Category.CUSTOM_CALL, Category.ATTENTION, Category.HOST):
        return _wrapped(program, instruction, machine)
    return None


def _wrapped(program: Program, instruction: Instruction, machine: ComputeDevice) -> Price | None:
    """Price a fusion around a custom call: slices that it reads and writes in place are free."""
    for inner in program.body(instruction):
        if inner.opcode == "custom-call":
            return price_custom_call(program, inner, machine)
    return price_attention(program, instruction, machine)


_SHARE: Final = 0.65
"""Share of the rate of a GEMM of the same work: rule of thumb for cuDNN's implicit GEMMs."""
_GROUPED: Final = 0.1
"""Depthwise convolutions barely fill matrix units."""
_CONVOLUTION_START_S: Final = 5e-6
_CONVOLUTION_REACH: Final = 0.35
_DEEPEST: Final = 3


def price_convolution(
    program: Program, instruction: Instruction, machine: ComputeDevice
) -> Price | None:
    """Price a convolution; None if its operations can't be counted."""
    found = list(_convolutions(program, instruction))
    counts = [flops(program, member) for member in found]
    operations = sum(count for count in counts if count)
    if not operations or None in counts:
        return None
    read = [operand.shape.dtype for operand in program.operands(found[0]) if operand.shape.dims]
    dtype = _type(read[0] if read else "bf16")
    grouped = any(member.convolution and member.convolution.feature_groups > 1 for member in found)
    kernels = machine.gemm(dtype)
    share = kernels.share * (_GROUPED if grouped else _SHARE) * machine.scalars.matmul.value
    rate = machine.peak(dtype) * share
    moving = (bytes_accessed(program, instruction) or 0) / machine.memory_rate
    seconds = _CONVOLUTION_START_S + max(operations / rate, moving)
    how = f"convolution, {operations / 1e9:.3g} GFLOP {dtype} at {share:.0%} of peak"
    return price_around(seconds, _CONVOLUTION_REACH, PriceSource.ANALYTIC, PriceFamily.MATMUL, how)


def _convolutions(
    program: Program, instruction: Instruction, depth: int = 0
) -> Iterator[Instruction]:
    if instruction.opcode.removesuffix("-start") == "fusion" and depth < _DEEPEST:
        for inner in program.body(instruction):
            yield from _convolutions(program, inner, depth + 1)
    elif instruction.convolution is not None:
        yield instruction


def _type(dtype: str) -> str:
    if dtype == "f32":
        return "tf32"
    if dtype in ("bf16", "f16", "f64"):
        return dtype
    if element_bits(dtype) <= 8:
        return "f8" if dtype.startswith("f") else "s8"
    return "f32"


Pricer = Callable[[Program, Instruction, ComputeDevice], Price | None]
"""Returns None for a call that it can't price; then the next pricer is tried."""

_USERS: Final[list[tuple[re.Pattern[str], Pricer]]] = []


def register(pattern: str, pricer: Pricer) -> None:
    """Price custom calls whose target, name or op_name the pattern matches anywhere.

    The latest registered is tried first, and all of them before the pricers of Counterpoint.

    Use it for kernels whose work the compiler does not know. Match the call's name or op_name where
    many kernels share one target, as Pallas, Triton and Mosaic kernels do.
    """
    _USERS.insert(0, (re.compile(pattern), pricer))


def unregister(pricer: Pricer) -> None:
    """Remove a registered pricer."""
    _USERS[:] = [entry for entry in _USERS if entry[1] is not pricer]


def price_registered(
    program: Program, instruction: Instruction, machine: ComputeDevice
) -> Price | None:
    """Return the price from the first registered pricer that knows the call."""
    description = f"{instruction.custom_call_target} {instruction.name} {instruction.op_name}"
    for pattern, pricer in _USERS:
        if pattern.search(description):
            price = pricer(program, instruction, machine)
            if price is not None:
                return price
    return None
