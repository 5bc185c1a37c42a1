"""Prices of the user's own kernels: from a table (`--kernel-table`) or a function (`register`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from counterpoint.cost.compute.machine import ComputeDevice
from counterpoint.cost.model import Price, PriceFamily, PriceSource, price_around
from counterpoint.cost.tables.kernel_toml import amount
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program

if TYPE_CHECKING:
    from counterpoint.cost.tables.kernel_toml import Kernel, KernelTable


_KERNEL_START_S: Final = 2.5e-6
_TABLE_REACH: Final = {"time": 0.05, "work": 0.25}

Pricer = Callable[[Program, Instruction, ComputeDevice], Price | None]
"""Returns None for a call that it can't price; then the next pricer is tried."""

_USERS: Final[list[tuple[re.Pattern[str], Pricer]]] = []


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
