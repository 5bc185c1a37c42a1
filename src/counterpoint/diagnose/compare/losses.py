"""Whether B's losses are those of A: a program that computes something else is no faster one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from counterpoint.capture.losses import Losses
from counterpoint.core import Unknown

_TIMES: Final = 3.0
"""Runs of A may by chance be nearer to each other than to an equal run, but not by this factor."""
_NEAR_ZERO: Final = 0.05
"""Share of the largest loss below which a difference is not divided by the loss itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossDifference:
    """The largest difference between a loss of B and that of the nearest run of A, as a share.

    `own` is the largest difference between runs of A; None if there is only one.
    """

    share: float
    step: int
    steps: int
    own: float | None

    @property
    def differ(self) -> bool:
        """True if B's losses are not as near to A's as A's runs are to each other."""
        return self.share > _TIMES * (self.own or 0.0)


def loss_difference(a: Sequence[Losses], b: Sequence[Losses]) -> LossDifference | Unknown:
    """Compare the losses of steps that all runs printed."""
    for name, side in (("A", a), ("B", b)):
        if not any(losses.values for losses in side):
            return Unknown(f"{name} printed no losses")
    first, second = (
        [dict(zip(it.steps, it.values, strict=True)) for it in side if it.values] for side in (a, b)
    )
    steps = sorted(set(first[0]).intersection(*first[1:], *second))
    if not steps:
        return Unknown("no step has a loss in all runs")
    nearest = [min(_apart(run, other, steps) for other in first) for run in second]
    share, step = max(nearest)
    pairs = [_apart(run, other, steps)[0] for run, other in combinations(first, 2)]
    return LossDifference(
        share=share, step=step, steps=len(steps), own=max(pairs) if pairs else None
    )


def _apart(
    one: Mapping[int, float], other: Mapping[int, float], steps: Sequence[int]
) -> tuple[float, int]:
    """Return the largest difference of two runs as a share of the loss, and its step."""
    least = _NEAR_ZERO * max(
        (abs(other[at]) for at in steps if math.isfinite(other[at])), default=0
    )
    shares = ((_share(one[step], other[step], least), step) for step in steps)
    return max(shares, key=lambda share: share[0])


def _share(one: float, other: float, least: float) -> float:
    if not (math.isfinite(one) and math.isfinite(other)):
        return 0.0 if math.isfinite(one) == math.isfinite(other) else math.inf
    return abs(one - other) / (max(abs(other), least) or 1.0)
