"""What rules on exposed communication say alike: sums, savings, evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from counterpoint.core.basis import Basis, Range
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.finding import Evidence
from counterpoint.diagnose.savings import savings_of

_SHOWN: Final = 5

_LITTLE: Final = 0.1
"""Share of what collectives hold up, below which moving other work beside them is no remedy."""

Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Saving:
    """Milliseconds of a median step, and what they rest on."""

    ms: Range
    basis: Basis


def exposed_ms(rows: Rows) -> float:
    """Their exposed time without waiting for late devices."""
    return sum(row["own_ms"] for row in rows)


def hiding(case: Case, rows: Rows) -> Saving:
    """If they ran beside compute: at most what independent work is known for.

    Nothing of it is sure: the scheduler may lack the memory, or know costs too badly. Where next to
    no such work is there, only doing without them helps, or their loop's next turn.
    """
    gone = removing(case, rows)
    covered = _covered(rows)
    if covered is None or covered < _LITTLE * gone.ms.high:
        return gone
    return Saving(Range(0.0, min(gone.ms.high, covered)), gone.basis)


def meanwhile(case: Case, rows: Rows) -> str:
    """A sentence on what the schedule itself would allow; none where the simulator can't tell."""
    step = case.timeline.step_program
    told = case.ask(savings_of).beside(row["op"] for row in rows if row["program"] == step)
    if told is None or told.high < _LITTLE * exposed_ms(rows):
        return ""
    return (
        ". In the order of the schedule as it is, going on with what does not need them would gain"
        f" {told.low:,.2f} to {told.high:,.2f} ms"
    )


def _covered(rows: Rows) -> float | None:
    """What other work could cover of each, added up: the same work may cover several."""
    if any(row["movable_ms"] is None for row in rows):
        return None
    return sum(min(row["own_ms"], row["movable_ms"] * row["count"]) for row in rows)


def removing(case: Case, rows: Rows) -> Saving:
    """If they took no time: what the simulator says, bounded by what is exposed."""
    exposed = exposed_ms(rows)
    step = case.timeline.step_program
    told = case.ask(savings_of).without(row["op"] for row in rows if row["program"] == step)
    if told is None:
        return Saving(Range(0.0, exposed), case.basis)
    high = min(told.high, exposed)
    return Saving(Range(min(told.low, high), high), Basis.PREDICTED)


def lessening(case: Case, rows: Rows, share: float) -> Saving:
    """If they took less by at most a share."""
    gone = removing(case, rows)
    return Saving(Range(0.0, gone.ms.high * share), gone.basis)


def evidence(case: Case, rows: Rows, ms: str = "own_ms") -> tuple[Evidence, ...]:
    """The dearest of them."""
    return tuple(case.evidence(row, ms) for row in rows[:_SHOWN])


def kinds(rows: Rows) -> str:
    """`all-gather and reduce-scatter`, the dearest first."""
    sums: dict[str, float] = {}
    for row in rows:
        kind = str(row["kind"] or "communication")
        sums[kind] = sums.get(kind, 0.0) + row["own_ms"]
    named = sorted(sums, key=lambda kind: -sums[kind])
    most = named[:3]
    return " and ".join([", ".join(most[:-1]), most[-1]] if len(most) > 1 else most)
