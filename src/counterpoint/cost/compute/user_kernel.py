"""The price of a custom call that the user described in a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from counterpoint.cost.compute.machine import Machine
from counterpoint.cost.price import Family, Price, Source, around
from counterpoint.cost.tables.kernel_toml import Kernel, KernelTable, amount
from counterpoint.hlo import Instruction, Program

_START_S: Final = 2.5e-6
_REACH: Final = {"time": 0.05, "work": 0.25}


def price_described(
    program: Program, instruction: Instruction, machine: Machine, tables: Sequence[KernelTable]
) -> Price | None:
    """None for what is no custom call, or what no table describes."""
    if not instruction.custom_call_target:
        return None
    said = f"{instruction.custom_call_target} {instruction.name} {instruction.op_name}"
    for table in tables:
        kernel = table.find(said)
        price = _price(program, instruction, machine, kernel, table.origin) if kernel else None
        if price is not None:
            return price
    return None


def _price(
    program: Program, instruction: Instruction, machine: Machine, kernel: Kernel, origin: str
) -> Price | None:
    args = [it.shape.dims for it in program.operands(instruction)]
    outs = [leaf.dims for leaf in instruction.shape.leaves]
    if kernel.us is not None:
        us = amount(kernel.us, args, outs)
        how = f"{origin}: {kernel.match.pattern}"
        if us is None:
            return None
        return around(us * 1e-6, _REACH["time"], Source.USER_TABLE, Family.CUSTOM, how)
    flops = amount(kernel.flops or 0.0, args, outs)
    moved = amount(kernel.bytes or 0.0, args, outs)
    if flops is None or moved is None:
        return None
    computing = flops / (machine.peak(kernel.dtype) * kernel.efficiency)
    seconds = _START_S + max(computing, moved / machine.memory_rate)
    how = f"{origin}: {kernel.match.pattern}, {flops / 1e9:.3g} GFLOP, {moved / 1e6:.3g} MB"
    return around(seconds, _REACH["work"], Source.USER_TABLE, Family.CUSTOM, how)
