"""Collectives in many pieces: those that their number of operands makes slower than others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from counterpoint.core import Basis
from counterpoint.diagnose.collectives.links import Wire
from counterpoint.diagnose.step_data import StepData

_SLOWER: Final = 0.5
"""Share of the others' rate below which a collective is far slower."""

_MANY: Final = 2
"""Minimum ratio of its operands to those of another."""

_LARGER: Final = 1.25
_SMALLER: Final = 8.0
"""Rates grow with size: a faster smaller one is strong evidence, a faster larger one is none."""

_LEAST: Final = 2
"""Minimum number of others: a single one may be fast by chance."""

_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class _Candidate:
    row: dict[str, Any]
    wire: Wire
    operands: int
    rate: float  # bytes per second

    def is_like(self, other: _Candidate) -> bool:
        """Return whether `other` is comparable with this collective."""
        same = all(self.row[key] == other.row[key] for key in ("program", "kind", "group_size"))
        ratio = (self.wire.bytes or 1.0) / (other.wire.bytes or 1.0)
        return same and self.wire.link == other.wire.link and 1 / _LARGER <= ratio <= _SMALLER


def many_pieces(
    data: StepData, rows: Sequence[dict[str, Any]], wires: Sequence[Wire]
) -> dict[tuple[int | None, str], str]:
    """Describe, by program and name, the collectives slowed down by many operands.

    XLA merges collectives into one instruction with many operands, and makes one NCCL call for
    each; many short calls do not reach the rate of a few long ones. Other work beside a collective
    may slow it down, too, so there must be others with fewer operands, on the same link and as
    large, that are faster.
    """
    if data.timeline.basis is Basis.PREDICTED:
        return {}  # the model's prices ignore the number of operands
    candidates = [
        candidate
        for row, wire in zip(rows, wires, strict=True)
        if (candidate := _candidate(data, row, wire))
    ]
    slow: dict[tuple[int | None, str], str] = {}
    fewest = min((candidate.operands for candidate in candidates), default=0)
    for candidate in candidates:
        if candidate.operands <= _MANY * fewest:
            continue
        others = [
            other for other in candidates if other is not candidate and candidate.is_like(other)
        ]
        fewer = [other for other in others if other.operands * _MANY < candidate.operands]
        if len(fewer) < _LEAST:
            continue
        usual = median(other.rate for other in fewer)
        if candidate.rate < _SLOWER * usual:
            slow[candidate.row["program"], candidate.row["op"]] = _describe_pieces(
                candidate, usual, fewer
            )
    return slow


def _describe_pieces(candidate: _Candidate, usual: float, others: Sequence[_Candidate]) -> str:
    each = (candidate.row["bytes"] or 0) / candidate.operands / _MIB
    return (
        f"it has {candidate.operands:,} operands of {each:.2g} MiB on average and reaches"
        f" {candidate.rate / 1e9:.3g} GB/s; {len(others):,} others of its kind with at most"
        f" {max(other.operands for other in others):,} operands reach {usual / 1e9:.3g} GB/s"
    )


def _candidate(data: StepData, row: dict[str, Any], wire: Wire) -> _Candidate | None:
    index, transfer_ms = row["program"], row["transfer_ms"]
    if index is None or not transfer_ms or not wire.bytes:
        return None
    program = data.timeline.programs[int(index)].hlo()
    instruction = program.instruction(row["op"]) if program else None
    if instruction is None or program is None:
        return None
    return _Candidate(
        row, wire, len(list(program.operands(instruction))), wire.bytes / transfer_ms * 1e3
    )
