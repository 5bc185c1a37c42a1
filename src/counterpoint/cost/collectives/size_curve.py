"""SizeCurve: measured seconds by message size, read between and beyond its points."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class SizeCurve:
    """Seconds that never fall as sizes grow: a smaller message that took longer had a bad day."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    def at(self, size: float) -> float:
        """Between two points a straight line between their logarithms.

        Below the first its time, for that is latency. Beyond the last at its rate, for there the
        wire is full.
        """
        after = bisect_right(self.sizes, size)
        if after == 0:
            return self.seconds[0]
        if after == len(self.sizes):
            return self.seconds[-1] * max(1.0, size / self.sizes[-1])
        low, high = self.sizes[after - 1], self.sizes[after]
        share = math.log(size / low) / math.log(high / low)
        return self.seconds[after - 1] ** (1 - share) * self.seconds[after] ** share

    @property
    def floor(self) -> float:
        return self.seconds[0]


def curve(points: Iterable[tuple[int, float]]) -> SizeCurve:
    """The curve through points in any order; of several of one size the fastest."""
    best: dict[int, float] = {}
    for size, seconds in points:
        if size > 0 and seconds > 0:
            best[size] = min(seconds, best.get(size, math.inf))
    sizes = tuple(sorted(best))
    falling = accumulate((best[size] for size in reversed(sizes)), min)
    return SizeCurve(sizes, tuple(falling)[::-1])
