"""Prices from collectives that the user measured: nccl-tests' logs go before all of ours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from counterpoint.cost.collectives.placement import Placement
from counterpoint.cost.collectives.size_curve import SizeCurve, curve
from counterpoint.cost.price import Family, Price, Source, around
from counterpoint.cost.tables.nccl_tests import CollectiveTable
from counterpoint.hardware import Target

_REACH: Final = 0.08  # from run to run, and in a step instead of in a benchmark
_BEYOND: Final = 0.3  # of sizes that the log doesn't span


def from_tables(
    kind: str, size: int, where: Placement, target: Target, tables: Sequence[CollectiveTable]
) -> Price | None:
    """What a log of the same operation on as many ranks of as many hosts says."""
    table = next((it for it in tables if _fits(it, kind, where, target)), None)
    if table is None or size == 0:
        return None
    points = _curve(tuple(sorted(table.seconds.items())))
    spanned = points.sizes[0] <= size <= points.sizes[-1]
    seconds = points.at(size)
    return around(
        seconds,
        _REACH if spanned else _BEYOND,
        Source.USER_TABLE,
        Family.NETWORK if where.crosses else Family.DOMAIN,
        f"{where}, {table.origin}",
        "latency" if seconds < 2 * points.floor else "bandwidth",
    )


def _fits(table: CollectiveTable, kind: str, where: Placement, target: Target) -> bool:
    if (table.kind, table.ranks) != (kind.removeprefix("ragged-"), where.ranks):
        return False
    nodes = table.nodes or -(-table.ranks // target.gpus_per_host)
    return nodes == where.hosts


@cache
def _curve(points: tuple[tuple[int, float], ...]) -> SizeCurve:
    return curve(points)
