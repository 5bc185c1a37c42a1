"""Prices a collective on a Target, by its participants and their placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from counterpoint.cost.collectives.group_price import price_across, price_pair, price_within
from counterpoint.cost.collectives.measured_table import corrected, from_tables
from counterpoint.cost.collectives.placement import (
    pair_placement,
    pairs_of,
    pattern,
    place,
    placements,
)
from counterpoint.cost.model import FREE
from counterpoint.hlo.collectives import KINDS, PAIRWISE, collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.schedule import is_done

if TYPE_CHECKING:
    from counterpoint.cost.collectives.placement import Placement
    from counterpoint.cost.model import Price
    from counterpoint.cost.scalars import Scalars
    from counterpoint.cost.tables.nccl_tests import CollectiveTable
    from counterpoint.hardware.target import Target


def price_collective(
    program: Program,
    instruction: Instruction,
    target: Target,
    scalars: Scalars,
    tables: Sequence[CollectiveTable] = (),
) -> Price | None:
    """Price one execution; FREE for a done; None if the instruction is not a collective.

    Transfers between host and device (`is_host_transfer`) are not collectives.
    """
    communication = collective(program, instruction)
    if communication is None:
        return None
    if is_done(instruction):
        return FREE
    kind = instruction.opcode.removesuffix("-start")
    if kind not in KINDS:
        return _all_inside(program, instruction, target, scalars, tables)
    if kind in PAIRWISE:
        return _pairwise(program, instruction, communication.bytes, target, scalars, tables)
    prices = [
        _grouped(kind, communication.bytes, where, target, scalars, tables)
        for where in placements(program, instruction, target)
    ]
    slowest = max(prices, key=lambda price: price.seconds)
    # The size of a ragged one is known only at run time; its buffer is the maximum.
    return replace(slowest, low=slowest.low / 4) if kind == "ragged-all-to-all" else slowest


def _all_inside(
    program: Program,
    instruction: Instruction,
    target: Target,
    scalars: Scalars,
    tables: Sequence[CollectiveTable],
) -> Price | None:
    """Price several collectives launched as one, which share the wire."""
    inner = [
        price_collective(program, member, target, scalars, tables)
        for member in program.body(instruction)
    ]
    prices = [price for price in inner if price is not None and price != FREE]
    if not prices:
        return None
    slowest = max(prices, key=lambda price: price.seconds)
    if len(prices) == 1:
        return slowest
    return replace(
        slowest,
        seconds=sum(price.seconds for price in prices),
        high=sum(price.high for price in prices),
        how=f"{len(prices)} at once; the longest: {slowest.how}",
    )


def _grouped(
    kind: str,
    size: int,
    where: Placement,
    target: Target,
    scalars: Scalars,
    tables: Sequence[CollectiveTable],
) -> Price:
    measured = from_tables(kind, size, where, target, tables)
    if measured is not None:
        return measured
    if where.crosses and size > 0:
        scaled = corrected(kind, size, where, target, scalars, tables)
        return scaled or price_across(kind, size, where, target, scalars)
    return price_within(kind, size, where.ranks, target, bus=where.bus)


def _pairwise(
    program: Program,
    instruction: Instruction,
    size: int,
    target: Target,
    scalars: Scalars,
    tables: Sequence[CollectiveTable],
) -> Price:
    """Price by the slowest pair: the step goes on when all have received."""
    pairs = pairs_of(program, instruction)
    ranks = tuple(sorted({rank for pair in pairs for rank in pair}))
    if tables and ranks and pattern(pairs) == "ring":
        (where,) = place((ranks,), target)
        measured = from_tables("collective-permute", size, where, target, tables)
        if measured is not None:
            return measured
    bus, nic = pair_placement(pairs, target)
    involved = max(len(ranks), 2)  # a device that sends to itself alone is priced as a pair
    inside = price_within("collective-permute", size, involved, target, pattern(pairs), bus)
    if not nic:
        return inside
    across = price_pair(size, nic, scalars)
    return max(inside, across, key=lambda price: price.seconds)
