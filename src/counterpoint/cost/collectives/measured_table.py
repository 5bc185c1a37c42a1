"""Prices from the user's measured collectives: nccl-tests' logs precede all our sources.

A log with the same ranks and hosts is the price. One with another number of hosts, but as many
ranks on each, measures the error of our model on this network, and corrects the model's price.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from counterpoint.cost.collectives.group_price import price_across
from counterpoint.cost.collectives.placement import Placement, pairs_of, pattern, place, placements
from counterpoint.cost.model import PriceFamily, PriceSource, price_around
from counterpoint.cost.tables.nccl_tests import curve
from counterpoint.hlo.collectives import KINDS, collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.schedule import is_done

if TYPE_CHECKING:
    from counterpoint.cost.model import Price
    from counterpoint.cost.scalars import Scalars
    from counterpoint.cost.tables.nccl_tests import CollectiveTable, SizeCurve
    from counterpoint.hardware.target import Target

_REACH: Final = 0.08  # between runs, and between a benchmark and a step
_BEYOND: Final = 0.3  # for sizes that the log doesn't span
_ELSEWHERE: Final = 0.2  # for other numbers of hosts


def from_tables(
    kind: str, size: int, where: Placement, target: Target, tables: Sequence[CollectiveTable]
) -> Price | None:
    """Return the price from a log of the same operation on as many ranks of as many hosts."""
    table = next((log for log in tables if is_same(log, kind, where, target)), None)
    if table is None or size == 0:
        return None
    points = _curve(tuple(sorted(table.seconds.items())))
    spanned = points.sizes[0] <= size <= points.sizes[-1]
    seconds = points.at(size)
    return price_around(
        seconds,
        _REACH if spanned else _BEYOND,
        PriceSource.USER_TABLE,
        PriceFamily.NETWORK if where.crosses else PriceFamily.DOMAIN,
        f"{where}, {table.origin}",
        "latency" if seconds < 2 * points.floor else "bandwidth",
    )


def corrected(
    kind: str,
    size: int,
    where: Placement,
    target: Target,
    scalars: Scalars,
    tables: Sequence[CollectiveTable],
) -> Price | None:
    """Return the model's price, corrected by the log of the nearest number of hosts."""
    near = [log for log in tables if is_alike(log, kind, where)]
    if not near or size == 0:
        return None
    table = min(near, key=lambda log: abs(log.nodes - where.hosts))
    measured_placement = replace(where, ranks=table.ranks, domains=table.nodes, hosts=table.nodes)
    price = price_across(kind, size, where, target, scalars)
    modeled = price_across(kind, size, measured_placement, target, scalars)
    points = _curve(tuple(sorted(table.seconds.items())))
    seconds = price.seconds * points.at(size) / modeled.seconds
    spanned = points.sizes[0] <= size <= points.sizes[-1]
    return price_around(
        seconds,
        _ELSEWHERE if spanned else _BEYOND,
        PriceSource.USER_TABLE,
        PriceFamily.NETWORK,
        f"{price.how}, corrected by {table.nodes} hosts of {table.origin}",
        price.bound_by,
        price.link,
    )


def is_alike(table: CollectiveTable, kind: str, where: Placement) -> bool:
    """Return whether the table is across hosts that are domains, with as many ranks on each."""
    return (
        table.kind == kind.removeprefix("ragged-")
        and table.nodes > 1
        and where.domains == where.hosts
        and table.ranks * where.hosts == where.ranks * table.nodes
    )


def is_same(table: CollectiveTable, kind: str, where: Placement, target: Target) -> bool:
    """Return whether the table has as many ranks on as many hosts."""
    if (table.kind, table.ranks) != (kind.removeprefix("ragged-"), where.ranks):
        return False
    nodes = table.nodes or -(-table.ranks // target.gpus_per_host)
    return nodes == where.hosts


@cache
def _curve(points: tuple[tuple[int, float], ...]) -> SizeCurve:
    return curve(points)


_SHOWN: Final = 3  # maximum layouts of a program listed in a note


def table_notes(
    program: Program, target: Target, tables: Sequence[CollectiveTable]
) -> Iterator[str]:
    """Yield one sentence for each fact about a log that its user must know."""
    if not tables:
        return
    sizes_by_kind = _largest_sizes(program, target)
    for at, table in enumerate(tables):
        yield from _of_table(table, tables[:at], sizes_by_kind, target)


_LargestSizes = dict[str, dict[Placement, int]]
"""The largest size, by kind and placement."""


def _largest_sizes(program: Program, target: Target) -> _LargestSizes:
    by_kind: _LargestSizes = {}
    for instruction in program.instructions:
        communication = None if is_done(instruction) else collective(program, instruction)
        kind = instruction.opcode.removesuffix("-start").removeprefix("ragged-")
        if communication is None or kind not in KINDS:
            continue
        sizes = by_kind.setdefault(kind, {})
        for where in _where(program, instruction, kind, target):
            sizes[where] = max(sizes.get(where, 0), communication.bytes or 0)
    return by_kind


def _where(program: Program, it: Instruction, kind: str, target: Target) -> tuple[Placement, ...]:
    if kind != "collective-permute":
        return placements(program, it, target)
    pairs = pairs_of(program, it)
    ranks = tuple(sorted({rank for pair in pairs for rank in pair}))
    return place((ranks,), target) if ranks and pattern(pairs) == "ring" else ()


def _of_table(
    table: CollectiveTable,
    earlier: Sequence[CollectiveTable],
    sizes_by_kind: _LargestSizes,
    target: Target,
) -> Iterator[str]:
    name = f"{table.origin} ({table.kind} of {_layout(table.ranks, table.nodes)})"
    sizes = sizes_by_kind.get(table.kind, {})
    if not sizes:
        yield f"{name} is not used: this program has no {table.kind}"
        return
    used = {where: size for where, size in sizes.items() if _uses(table, where, target)}
    if not used:
        layouts = ", ".join(
            _layout(placement.ranks, placement.hosts) for placement in [*sizes][:_SHOWN]
        )
        yield (
            f"{name} is not used: this program's run on {layouts}. A log gives the price if ranks"
            " and hosts are the same, and a correction if each host has as many ranks"
        )
        return
    before = [log for log in earlier if log.kind == table.kind]
    if all(any(is_same(log, table.kind, where, target) for log in before) for where in used):
        yield (
            f"{name} is not used: {before[0].origin}, given before it, prices the same collectives"
        )
        return
    yield from _limits(name, table, max(used.values()))


def _limits(name: str, table: CollectiveTable, size: int) -> Iterator[str]:
    largest = max(table.seconds)
    if size > largest:
        yield (
            f"{name} ends at {largest / 2**20:.3g} MiB, but this program's go up to"
            f" {size / 2**20:.3g} MiB: beyond its end, its last rate is used"
        )


def _uses(table: CollectiveTable, where: Placement, target: Target) -> bool:
    kind = table.kind
    return is_same(table, kind, where, target) or (where.crosses and is_alike(table, kind, where))


def _layout(ranks: int, hosts: int) -> str:
    if not hosts:
        return f"{ranks} ranks"
    return f"{ranks} ranks on {hosts} host{'s' if hosts > 1 else ''}"
