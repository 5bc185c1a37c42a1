"""Collectives of both sides: what of them is exposed, what is waiting, how fast they move."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.compare.item import Item, label_of
from counterpoint.diagnose.compare.row import Row
from counterpoint.diagnose.metrics.collectives import collective_profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A row of collectives, A's figure and B's; sums over its members, None: not known.

    Bandwidth is that of all members together: what they move over what their transfers take.
    """

    row: Row
    exposed_ms: tuple[float | None, float | None]
    wait_ms: tuple[float | None, float | None]
    busbw_gbps: tuple[float | None, float | None]


_Told = Mapping[tuple[str, str], Mapping[str, Any]]


def networks_of(rows: Iterable[Row], cases: tuple[Case, Case]) -> tuple[Network, ...]:
    """The rows that are collectives, in the order of the rows."""
    a, b = (_told(case) for case in cases)
    return tuple(
        Network(
            row=row,
            exposed_ms=(_sum("exposed_ms", row.match.a, a), _sum("exposed_ms", row.match.b, b)),
            wait_ms=(_sum("wait_ms", row.match.a, a), _sum("wait_ms", row.match.b, b)),
            busbw_gbps=(_bandwidth(row.match.a, a), _bandwidth(row.match.b, b)),
        )
        for row in rows
        if row.shown.is_collective
    )


def _told(case: Case) -> _Told:
    return {
        (label_of(case.timeline, row["program"]), row["op"]): row
        for row in case.ask(collective_profile).iter_rows(named=True)
    }


def _of(items: Sequence[Item], told: _Told) -> Iterator[Mapping[str, Any]]:
    return (told.get((it.program, it.op), {}) for it in items)


def _sum(column: str, items: Sequence[Item], told: _Told) -> float | None:
    figures = [row.get(column) for row in _of(items, told)]
    if not figures or None in figures:
        return None
    return math.fsum(it for it in figures if it is not None)


def _bandwidth(items: Sequence[Item], told: _Told) -> float | None:
    moved = took = 0.0
    for row in _of(items, told):
        size, alg, bus, count = (
            row.get(it) for it in ("bytes", "algbw_gbps", "busbw_gbps", "count")
        )
        if not size or not alg or bus is None or count is None:
            return None
        took += count * size / alg
        moved += count * size / alg * bus
    return moved / took if took else None
