"""Leaderboard: the candidates of a search so far, and which of them are the best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from counterpoint.tune.arm import Predicted
from counterpoint.tune.search.grid import Point
from counterpoint.tune.study.records import CandidateSeen


@dataclass(slots=True)
class Leaderboard:
    """All candidates so far; `base` is the first. `points` omits arms outside the grid."""

    base: CandidateSeen
    candidates: list[CandidateSeen] = field(default_factory=list[CandidateSeen])
    points: dict[Point, CandidateSeen] = field(default_factory=dict[Point, CandidateSeen])

    def __post_init__(self) -> None:
        self.points[()] = self.base

    def add(self, seen: CandidateSeen, point: Point | None) -> None:
        """Add a candidate; `points` keeps only the first one of each point."""
        self.candidates.append(seen)
        if point is not None:
            self.points.setdefault(point, seen)

    def best(self) -> CandidateSeen:
        """Return the shortest step that fits, with the fewest changes, or the base."""
        return min((self.base, *self.candidates), key=rank)

    def best_points(self) -> list[Point]:
        """Return one point per distinct program, best first, including the base."""
        found: dict[str, Point] = {}
        for point, seen in sorted(self.points.items(), key=lambda item: rank(item[1])):
            if seen.arm.predicted is not None and seen.arm.predicted.fits is not False:
                found.setdefault(seen.arm.predicted.program, point)
        return list(found.values())

    def gain(self, point: Point) -> float | None:
        """Return a point's predicted gain; None if it does not fit or is unknown."""
        seen = self.points.get(point)
        figures = seen.arm.predicted if seen is not None else None
        return None if figures is None or figures.fits is False else figures.gain

    @property
    def programs(self) -> int:
        """Number of distinct programs, including the base's."""
        base = self.base.arm.predicted
        known = {prediction.program for prediction in self._predictions()}
        return len(known if base is None else known | {base.program})

    @property
    def same(self) -> int:
        return sum(seen.same_as is not None for seen in self.candidates)

    @property
    def failed(self) -> int:
        return sum(seen.failure is not None for seen in self.candidates)

    @property
    def too_large(self) -> int:
        return sum(prediction.fits is False for prediction in self._predictions())

    def _predictions(self) -> Iterator[Predicted]:
        for seen in self.candidates:
            if seen.arm.predicted is not None:
                yield seen.arm.predicted


def rank(seen: CandidateSeen) -> tuple[bool, float, int]:
    """Sort key: candidates that fit first, then shorter steps, then fewer changes."""
    figures = seen.arm.predicted
    if figures is None:
        return True, inf, 0
    return figures.fits is False, figures.step_s, len(seen.arm.changes)
