"""Collectives of both sides, with the figures that the network analysis has of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.compare.compared_op import ComparedOp, label_of
from counterpoint.diagnose.compare.op_changes import OpChange
from counterpoint.diagnose.step_data import StepData

_Figures = Mapping[tuple[str, str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveChange:
    """A row of collectives with the figures of A and B; sums over its members, None: not known.

    Bandwidth is that of all members together: the bytes they move over the time of their transfers.
    """

    row: OpChange
    exposed_ms: tuple[float | None, float | None]
    wait_ms: tuple[float | None, float | None]
    busbw_gbps: tuple[float | None, float | None]


def networks_of(
    rows: Iterable[OpChange], cases: tuple[StepData, StepData]
) -> tuple[CollectiveChange, ...]:
    """Return the rows that are collectives, in the order of the rows."""
    a, b = (_collective_rows(data) for data in cases)
    return tuple(
        CollectiveChange(
            row=row,
            exposed_ms=(_sum("exposed_ms", row.match.a, a), _sum("exposed_ms", row.match.b, b)),
            wait_ms=(_sum("wait_ms", row.match.a, a), _sum("wait_ms", row.match.b, b)),
            busbw_gbps=(_bandwidth(row.match.a, a), _bandwidth(row.match.b, b)),
        )
        for row in rows
        if row.shown.is_collective
    )


def _collective_rows(data: StepData) -> _Figures:
    return {
        (label_of(data.timeline, row["program"]), row["op"]): row
        for row in data.cached(collective_profile).iter_rows(named=True)
    }


def _of(items: Sequence[ComparedOp], figures: _Figures) -> Iterator[Mapping[str, Any]]:
    return (figures.get((item.program, item.op), {}) for item in items)


def _sum(column: str, items: Sequence[ComparedOp], of_program: _Figures) -> float | None:
    figures = [row.get(column) for row in _of(items, of_program)]
    if not figures or None in figures:
        return None
    return math.fsum(figure for figure in figures if figure is not None)


def _bandwidth(items: Sequence[ComparedOp], figures: _Figures) -> float | None:
    moved = took = 0.0
    for row in _of(items, figures):
        size, alg, bus, count = (
            row.get(column) for column in ("bytes", "algbw_gbps", "busbw_gbps", "count")
        )
        if not size or not alg or bus is None or count is None:
            return None
        took += count * size / alg
        moved += count * size / alg * bus
    return moved / took if took else None
