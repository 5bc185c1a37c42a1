"""How far two clocks are apart, from pings: NTP's arithmetic, and the quickest of several.

One side notes when it asked and when it heard; the other says what its clock showed in between. The
answer was given somewhere between the two, so the middle is wrong by half the round trip at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ping:
    """One exchange, in nanoseconds of the clocks that they name."""

    asked: int  # ours
    theirs: int
    heard: int  # ours


@dataclass(frozen=True, slots=True)
class Offset:
    """Their clock less ours, and how far off that may be."""

    ms: float
    within_ms: float


def offset(pings: Iterable[Ping]) -> Offset | None:
    """From the quickest exchange; None without any."""
    best = min(pings, key=lambda one: one.heard - one.asked, default=None)
    if best is None:
        return None
    middle = (best.asked + best.heard) / 2
    return Offset((best.theirs - middle) / 1e6, max(best.heard - best.asked, 0) / 2e6)
