"""The order in which the runs of A and B were made, and what a drift of the machine can add.

A machine that becomes slower from run to run (it warms up, or fills with other jobs) makes the runs
of one side slower, if they came later. In the order ABBA both sides are equally late, and a drift
cancels; in the order AABB it looks like a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Final

LEAST_DRIFT: Final = 0.003
"""The drift from one run to the next that is always allowed for (rule of thumb)."""


@dataclass(frozen=True, slots=True)
class RunOrder:
    """The places of the runs in time, counted from 0: the unit of a drift is the run.

    Time would be another unit, but between runs of last week and of today it tells nothing.
    """

    a: tuple[int, ...]
    b: tuple[int, ...]

    @property
    def text(self) -> str:
        """The order in letters: `ABBA`."""
        sides = dict.fromkeys(self.a, "A") | dict.fromkeys(self.b, "B")
        return "".join(sides[place] for place in sorted(sides))

    @property
    def later(self) -> float:
        """By how many runs B is later than A, on average; negative if it is earlier."""
        return fmean(self.b) - fmean(self.a)

    @property
    def in_blocks(self) -> bool:
        """True if all runs of one side came before all of the other: AAABBB."""
        return max(self.a) < min(self.b) or max(self.b) < min(self.a)

    def drift_added(self, a: Sequence[float], b: Sequence[float]) -> float:
        """Return how much of the distance between the sides a drift can explain.

        `a` and `b` are logarithms of step times. The drift is the one within the sides, and at
        least `LEAST_DRIFT`, which few runs can't show.
        """
        return abs(self.later) * max(LEAST_DRIFT, abs(self._drift(a, b)))

    def squares_beside_drift(self, a: Sequence[float], b: Sequence[float]) -> float:
        """Return the sum of squares of the logarithms about their side's mean and the drift."""
        drift = self._drift(a, b)
        pairs = [*_centred(self.a, a), *_centred(self.b, b)]
        return sum((value - drift * place) ** 2 for place, value in pairs)

    def _drift(self, a: Sequence[float], b: Sequence[float]) -> float:
        """Return by how much each run is longer than the one before it, seen within the sides."""
        pairs = [*_centred(self.a, a), *_centred(self.b, b)]
        squares = sum(place**2 for place, _ in pairs)
        return sum(place * value for place, value in pairs) / squares if squares else 0.0


def order_of(a: Sequence[float | None], b: Sequence[float | None]) -> RunOrder | None:
    """Return the order of runs by when they started; None if that is not known of all."""
    starts = [started for started in chain(a, b) if started is not None]
    if len(starts) < len(a) + len(b) or len(set(starts)) < len(starts):
        return None
    places = {started: place for place, started in enumerate(sorted(starts))}
    sides = [tuple(places[it] for it in side if it is not None) for side in (a, b)]
    return RunOrder(sides[0], sides[1])


def _centred(places: Sequence[int], values: Sequence[float]) -> list[tuple[float, float]]:
    middle, level = fmean(places), fmean(values)
    return [(place - middle, value - level) for place, value in zip(places, values, strict=True)]
