"""The price of anything that is not a collective, by what kind of work it is."""

from __future__ import annotations

from collections.abc import Sequence

from counterpoint.cost.compute.machine import Machine
from counterpoint.cost.price import Price
from counterpoint.cost.tables.gemm_csv import GemmTable
from counterpoint.hlo import Instruction, Program


def price_compute(
    program: Program,
    instruction: Instruction,
    machine: Machine,
    tables: Sequence[GemmTable] = (),
) -> Price:
    """One execution of an instruction that launches work and is no collective."""
    raise NotImplementedError
