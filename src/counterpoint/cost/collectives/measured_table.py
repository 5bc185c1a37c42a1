"""Prices from the user's measured collectives: nccl-tests' logs precede all our sources.

A log with the same ranks and hosts is the price. One with another number of hosts, but as many
ranks on each, measures the error of our model on this network, and corrects the model's price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from counterpoint.cost.collectives.network import price_across
from counterpoint.cost.collectives.placement import Placement
from counterpoint.cost.collectives.size_curve import SizeCurve, curve
from counterpoint.cost.model import Price, PriceFamily, PriceSource, price_around
from counterpoint.cost.scalars import Scalars
from counterpoint.cost.tables.nccl_tests import CollectiveTable
from counterpoint.hardware import Target

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
    modelled = price_across(kind, size, measured_placement, target, scalars)
    points = _curve(tuple(sorted(table.seconds.items())))
    seconds = price.seconds * points.at(size) / modelled.seconds
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
