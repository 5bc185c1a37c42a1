"""The price of copies: within the device, and between device and host."""

from __future__ import annotations

from typing import Final

from counterpoint.cost.compute.machine import Machine
from counterpoint.cost.price import Family, Price, Source, around
from counterpoint.hlo import Instruction, Program

_START_S: Final = 8e-6
"""A transfer over PCIe: what cudaMemcpyAsync of a few bytes takes."""
_REACH: Final = 0.25


def price_host_transfer(program: Program, instruction: Instruction, machine: Machine) -> Price:
    """A copy to or from pinned memory of the host, in bytes of the larger side."""
    read = sum(it.shape.bytes for it in program.operands(instruction))
    leaves = [leaf.bytes for leaf in instruction.shape.leaves]
    moved = max([read, *leaves]) if read or leaves else 0
    seconds = _START_S + moved / machine.host_bytes_per_s
    how = f"{moved / 1e6:.3g} MB at {machine.host_bytes_per_s / 1e9:.0f} GB/s"
    return around(seconds, _REACH, Source.ANALYTIC, Family.HOST, how)
