"""SizeCurve: measured seconds by message size, interpolated and extrapolated."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class SizeCurve:
    """Seconds that never decrease with size: a smaller message that took longer is an outlier."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    def at(self, size: float) -> float:
        """Interpolate linearly between logarithms.

        Below the first point use its time, which is latency. Beyond the last use its rate, because
        the wire is saturated.
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
    """Return the curve through points in any order; of equal sizes, the fastest counts."""
    best: dict[int, float] = {}
    for size, seconds in points:
        if size > 0 and seconds > 0:
            best[size] = min(seconds, best.get(size, math.inf))
    sizes = tuple(sorted(best))
    falling = accumulate((best[size] for size in reversed(sizes)), min)
    return SizeCurve(sizes, tuple(falling)[::-1])
