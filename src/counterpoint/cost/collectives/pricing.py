"""The price of a collective on a Target, from who takes part and where they stand."""

from __future__ import annotations

from collections.abc import Sequence

from counterpoint.cost.price import Price
from counterpoint.cost.scalars import Scalars
from counterpoint.cost.tables.nccl_tests import CollectiveTable
from counterpoint.hardware import Target
from counterpoint.hlo import Instruction, Program


def price_collective(
    program: Program,
    instruction: Instruction,
    target: Target,
    scalars: Scalars,
    tables: Sequence[CollectiveTable] = (),
) -> Price | None:
    """One execution; FREE for a done; None when the instruction is no collective.

    Transfers between host and device (`is_host_transfer`) are none.
    """
    raise NotImplementedError
