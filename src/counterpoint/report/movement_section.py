"""What a profile moved, as a section and as JSON: for `apply` and for the workflows alike."""

from __future__ import annotations

from typing import Any

from counterpoint.core.basis import Unknown
from counterpoint.pgle.movement import Move, Movement, shown
from counterpoint.report import units
from counterpoint.report.document import Column, Kind, Prose, Section, Table, Tone, printable

_US_PER_MS = 1e3


def movement_section(movement: Movement | Unknown, top: int) -> Section:
    """The collectives that moved, those first for which it matters most."""
    if isinstance(movement, Unknown):
        return Section("Schedule", "not compared", (Prose(printable(movement.reason), Tone.QUIET),))
    moved = movement.moved
    if not movement.reordered:
        return Section("Schedule", "the same with and without the profile")
    if not moved:
        return Section("Schedule", "changed; no collective moved")
    table = Table(columns=_COLUMNS, rows=tuple(map(_row, moved[:top])))
    return Section("Schedule", _summary(movement), (table, Prose(_legend(movement), Tone.QUIET)))


_COLUMNS = (
    Column("collective", Kind.NAME),
    Column("kind", Kind.WORD, 2),
    Column("size", Kind.NUMBER, 2),
    Column("starts", Kind.WORD),
    Column("compute within, us", Kind.NUMBER),
    Column("then", Kind.NUMBER),
    Column("transfer, us", Kind.NUMBER),
    Column("source", Kind.PLACE, 1),
)


def _summary(movement: Movement) -> str:
    parts = [f"{len(movement.moved):,} of {len(movement.moves):,} collectives moved"]
    if movement.newly_overlapped:
        parts.append(f"{len(movement.newly_overlapped):,} newly overlapped")
    if movement.no_longer_overlapped:
        parts.append(f"{len(movement.no_longer_overlapped):,} no longer")
    return ", ".join(parts)


def _legend(movement: Movement) -> str:
    hidden = (
        f"{units.milliseconds(movement.hidden_before_us / _US_PER_MS)} before, "
        f"{units.milliseconds(movement.hidden_after_us / _US_PER_MS)} after, "
        f"of {units.milliseconds(movement.transfers_us / _US_PER_MS)} a run"
    )
    return f"by the profile's costs; transfers that can be hidden at most: {hidden} (predicted)"


def _row(move: Move) -> tuple[str, ...]:
    cost = move.after.cost_us
    return (
        printable(move.name),
        move.kind,
        units.size(move.bytes),
        _shift(move.start_shift_us),
        f"{move.before.within_us:,.1f}",
        f"{move.after.within_us:,.1f}",
        units.UNKNOWN if cost is None else f"{cost:,.1f}",
        printable(move.source or ""),
    )


def _shift(us: float) -> str:
    if shown(us) == 0:
        return "as before"
    return f"{abs(us):,.1f} us {'earlier' if us < 0 else 'later'}"


def movement_data(movement: Movement | Unknown) -> dict[str, Any]:
    """The same as plain data, uncut."""
    if isinstance(movement, Unknown):
        return {"why_not": movement.reason}
    return {
        "reordered": movement.reordered,
        "basis": "predicted",
        "hidden_at_most_us": {
            "before": movement.hidden_before_us,
            "after": movement.hidden_after_us,
            "of": movement.transfers_us,
        },
        "newly_overlapped": [it.name for it in movement.newly_overlapped],
        "no_longer_overlapped": [it.name for it in movement.no_longer_overlapped],
        "gone": [*movement.gone],
        "new": [*movement.new],
        "moves": [_move_data(it) for it in movement.moves],
    }


def _move_data(move: Move) -> dict[str, Any]:
    return {
        "name": move.name,
        "name_before": move.name_before,
        "kind": move.kind,
        "bytes": move.bytes,
        "source": move.source,
        "executions": move.executions,
        "start_shift_us": move.start_shift_us,
        "within_us": [move.before.within_us, move.after.within_us],
        "hidden_us": [move.before.hidden_us, move.after.hidden_us],
        "transfer_us": move.after.cost_us,
    }
