"""Board: the candidates of a search so far, and which of them is the best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from counterpoint.tune.arm import Predicted
from counterpoint.tune.journal.records import CandidateSeen
from counterpoint.tune.search.grid import Point


@dataclass(slots=True)
class Board:
    """What was found; `base` is the first candidate. Points are of arms that have one."""

    base: CandidateSeen
    candidates: list[CandidateSeen] = field(default_factory=list[CandidateSeen])
    points: dict[Point, CandidateSeen] = field(default_factory=dict[Point, CandidateSeen])

    def __post_init__(self) -> None:
        self.points[()] = self.base

    def add(self, seen: CandidateSeen, point: Point | None) -> None:
        """One more; the second of the same point tells nothing."""
        self.candidates.append(seen)
        if point is not None:
            self.points.setdefault(point, seen)

    def best(self) -> CandidateSeen:
        """The shortest step that fits into memory, of the fewest changes; the base, if nothing."""
        return min((self.base, *self.candidates), key=place)

    def best_points(self) -> list[Point]:
        """Points with another program each, the best first; the base is among them."""
        found: dict[str, Point] = {}
        for point, seen in sorted(self.points.items(), key=lambda it: place(it[1])):
            if seen.arm.predicted is not None and seen.arm.predicted.fits is not False:
                found.setdefault(seen.arm.predicted.program, point)
        return list(found.values())

    def gain(self, point: Point) -> float | None:
        """What a point is predicted to save; None where it can't run, or is not known."""
        seen = self.points.get(point)
        figures = seen.arm.predicted if seen is not None else None
        return None if figures is None or figures.fits is False else figures.gain

    @property
    def programs(self) -> int:
        """How many there are that differ, the base's among them."""
        base = self.base.arm.predicted
        known = {it.program for it in self._predictions()}
        return len(known if base is None else known | {base.program})

    @property
    def same(self) -> int:
        return sum(it.same_as is not None for it in self.candidates)

    @property
    def failed(self) -> int:
        return sum(it.failure is not None for it in self.candidates)

    @property
    def too_large(self) -> int:
        return sum(it.fits is False for it in self._predictions())

    def _predictions(self) -> Iterator[Predicted]:
        for it in self.candidates:
            if it.arm.predicted is not None:
                yield it.arm.predicted


def place(seen: CandidateSeen) -> tuple[bool, float, int]:
    """For sorting: what runs first, then the shorter step, then fewer changes."""
    figures = seen.arm.predicted
    if figures is None:
        return True, inf, 0
    return figures.fits is False, figures.step_s, len(seen.arm.changes)
