"""Pieces: collectives that are far slower than others of their kind and size, being made of many.

XLA merges collectives into one instruction of many operands, and hands NCCL a call for each. Many
short ones do not reach the rate of a few long ones. What else runs beside it may slow a collective
too; so others of fewer operands, on the same link and as large, have to be faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from counterpoint.core.basis import Basis
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.network.wire import Wire

_SLOWER: Final = 0.5
"""Of the others' rate, up to which one is far slower."""

_MANY: Final = 2
"""Times the operands that any of the others has."""

_LARGER: Final = 1.25
_SMALLER: Final = 8.0
"""Rates grow with size: a smaller one that is faster says all the more, a larger one nothing."""

_LEAST: Final = 2
"""Others that are needed: one alone may be fast by luck."""

_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class _One:
    row: dict[str, Any]
    wire: Wire
    operands: int
    rate: float  # bytes per second

    def is_like(self, other: _One) -> bool:
        """Whether the other may be compared with it."""
        same = all(self.row[key] == other.row[key] for key in ("program", "kind", "group_size"))
        ratio = (self.wire.bytes or 1.0) / (other.wire.bytes or 1.0)
        return same and self.wire.link == other.wire.link and 1 / _LARGER <= ratio <= _SMALLER


def many_pieces(
    case: Case, rows: Sequence[dict[str, Any]], wires: Sequence[Wire]
) -> dict[tuple[int | None, str], str]:
    """By program and name, in words, those of `case.ask(collective_profile)` that are so."""
    if case.timeline.basis is Basis.PREDICTED:
        return {}  # nothing that operands cost is in the model's figures
    ones = [one for row, wire in zip(rows, wires, strict=True) if (one := _one(case, row, wire))]
    slow: dict[tuple[int | None, str], str] = {}
    least = min((one.operands for one in ones), default=0)
    for one in ones:
        if one.operands <= _MANY * least:
            continue
        others = [it for it in ones if it is not one and one.is_like(it)]
        fewer = [it for it in others if it.operands * _MANY < one.operands]
        if len(fewer) < _LEAST:
            continue
        usual = median(it.rate for it in fewer)
        if one.rate < _SLOWER * usual:
            slow[one.row["program"], one.row["op"]] = _said(one, usual, fewer)
    return slow


def _said(one: _One, usual: float, others: Sequence[_One]) -> str:
    each = (one.row["bytes"] or 0) / one.operands / _MIB
    return (
        f"it is made of {one.operands:,} operands of {each:.2g} MiB on average, and moves"
        f" {one.rate / 1e9:.3g} GB/s where {len(others):,} others of its kind, of at most"
        f" {max(it.operands for it in others):,} operands, reach {usual / 1e9:.3g}"
    )


def _one(case: Case, row: dict[str, Any], wire: Wire) -> _One | None:
    index, transfer_ms = row["program"], row["transfer_ms"]
    if index is None or not transfer_ms or not wire.bytes:
        return None
    program = case.timeline.programs[int(index)].hlo()
    it = program.instruction(row["op"]) if program else None
    if it is None or program is None:
        return None
    return _One(row, wire, len(list(program.operands(it))), wire.bytes / transfer_ms * 1e3)
