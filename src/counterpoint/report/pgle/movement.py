"""What a profile moved in the schedule: the collectives that start earlier or later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from counterpoint.core import Unknown
from counterpoint.pgle.applying.movement import CollectiveMove, Movement
from counterpoint.report import units
from counterpoint.report.columns import field_columns
from counterpoint.report.document import (
    Prose,
    Section,
    TextTable,
    Tone,
    numbers,
    table,
    words,
)
from counterpoint.report.pgle.pgle_json import CollectiveMoveJson

_US_PER_MS: Final = 1e3


def movement_section(
    movement: Movement | Unknown, top: int, costs: str = "the profile's costs"
) -> Section:
    """Return the collectives that moved, the largest effects first; `costs` is what moved them."""
    if isinstance(movement, Unknown):
        return Section("Schedule", "not compared", (Prose(movement.reason, Tone.QUIET),))
    moved = movement.moved
    if not movement.reordered:
        return Section("Schedule", "the same with and without the profile")
    if not moved:
        return Section("Schedule", "changed; no collective moved")
    legend = Prose(_legend(movement, costs), Tone.QUIET)
    return Section("Schedule", _summary(movement), (_moves(moved[:top]), legend))


def _moves(moves: Sequence[CollectiveMove]) -> TextTable:
    costs = [move.after.cost_us for move in moves]
    return table(
        *field_columns(CollectiveMoveJson, moves, ["name", "kind", "bytes"]),
        words("starts", [units.shift(move.start_shift_us, "as before") for move in moves]),
        numbers("compute within, us", [f"{move.before.within_us:,.1f}" for move in moves]),
        numbers("then", [f"{move.after.within_us:,.1f}" for move in moves]),
        numbers("transfer, us", [units.UNKNOWN if us is None else f"{us:,.1f}" for us in costs]),
        *field_columns(CollectiveMoveJson, moves, ["source"]),
    )


def _summary(movement: Movement) -> str:
    parts = [f"{len(movement.moved):,} of {len(movement.moves):,} collectives moved"]
    at_end = sum(not move.starts_elsewhere for move in movement.moved)
    if at_end:  # the table says of these that they start as before
        parts.append(f"{at_end:,} of them only at their end")
    if movement.newly_overlapped:
        parts.append(f"{len(movement.newly_overlapped):,} newly overlapped")
    if movement.no_longer_overlapped:
        parts.append(f"{len(movement.no_longer_overlapped):,} no longer overlapped")
    return ", ".join(parts)


def _legend(movement: Movement, costs: str) -> str:
    hidden = (
        f"{units.milliseconds(movement.hidden_before_us / _US_PER_MS)} before, "
        f"{units.milliseconds(movement.hidden_after_us / _US_PER_MS)} after, "
        f"of {units.milliseconds(movement.transfers_us / _US_PER_MS)} a run"
    )
    return f"by {costs}; upper bound of hidden transfers: {hidden} (predicted)"
