"""Pricing of anything that is not a collective, by its kind of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from counterpoint.cost.compute.attention import price_attention
from counterpoint.cost.compute.convolution import price_convolution
from counterpoint.cost.compute.custom_call import bound, price_custom_call
from counterpoint.cost.compute.decomposition import price_decomposition
from counterpoint.cost.compute.fourier import price_fft
from counterpoint.cost.compute.gemm import gemms
from counterpoint.cost.compute.gemm_price import price_gemm, sum_of
from counterpoint.cost.compute.host_transfer import is_offloaded, price_host_transfer
from counterpoint.cost.compute.machine import ComputeDevice
from counterpoint.cost.compute.memory import memory_rate, price_memory_bound
from counterpoint.cost.compute.sorting import price_sort
from counterpoint.cost.compute.user_kernel import price_registered
from counterpoint.cost.model import FREE, Price
from counterpoint.hlo.category import Category, category
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.work import bytes_accessed

if TYPE_CHECKING:
    from counterpoint.cost.tables.gemm_csv import GemmTable

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
        decomposition = price_decomposition(program, instruction, machine)
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
    products = list(gemms(program, instruction))
    if not products:
        return None
    price = sum_of([price_gemm(gemm, machine, tables) for gemm in products])
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
    if kind is Category.SORT:
        return price_sort(program, instruction, machine)
    return price_fft(program, instruction, machine) if instruction.opcode == "fft" else None


def _wrapped(program: Program, instruction: Instruction, machine: ComputeDevice) -> Price | None:
    """Price a fusion around a custom call: slices that it reads and writes in place are free."""
    for inner in program.body(instruction):
        if inner.opcode == "custom-call":
            return price_custom_call(program, inner, machine)
    return price_attention(program, instruction, machine)
