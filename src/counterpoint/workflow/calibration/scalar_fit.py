"""Fit one scalar to instructions whose times are known.

The value is that under which the sum of prices is the sum of times: a step adds instructions up,
so their sum has to be right before any of them. What lies far off (a kernel that is something else
than it seems) is left out first. Instructions are parted by what they compute, so that those left
out in turn are others than those fitted to, not the same in another layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from counterpoint.workflow.calibration.samples import Sample

_FAR: Final = 3.0
"""A price this many times off is no matter of a scalar."""
_FOLDS: Final = 5
_ALONE: Final = 0.1
"""Up to this share of its time beside a collective, an instruction counts as alone."""
_BESIDE: Final = 0.5
_ENOUGH: Final = 0.01
"""Of the time of all work, what has to have run beside collectives to say what that does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """How many times too long the prices are, and what that says of others."""

    value: float
    reach: float
    kept: tuple[Sample, ...]
    dropped: int
    error_before: float
    error_after: float
    unseen: float | None


def alone(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Those that ran without a collective beside them; all, where these are few."""
    free = tuple(it for it in samples if it.beside <= _ALONE)
    return free if _weight(free) > 0.2 * _weight(samples) else tuple(samples)


def fit_factor(samples: Sequence[Sample]) -> Factor | None:
    """Predicted over measured; None without samples."""
    if not samples:
        return None
    middle = weighted_median([it.ratio for it in samples], [it.weight for it in samples])
    kept = tuple(it for it in samples if middle / _FAR <= it.ratio <= middle * _FAR)
    value = _ratio(kept)
    apart = [abs(math.log(it.ratio / value)) for it in kept]
    spread = weighted_median(apart, [it.weight for it in kept])
    return Factor(
        value=value,
        reach=min(max(spread, 0.02), 0.5),
        kept=kept,
        dropped=len(samples) - len(kept),
        error_before=_error(kept, 1.0),
        error_after=_error(kept, value),
        unseen=_unseen(kept),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """How much longer equal work takes beside a collective: the middle, the spread, of how many."""

    value: float
    apart: float
    kinds: int
    pressed: tuple[tuple[Sample, float], ...]  # beside a collective, and seconds alone

    def error(self, value: float) -> float:
        """Of what ran beside collectives, if that slowed it down by this value."""
        off = sum(
            it.times * abs(alone_s * (1 + value * it.beside) - it.measured_s)
            for it, alone_s in self.pressed
        )
        return off / _weight([it for it, _ in self.pressed])


def fit_slowdown(samples: Sequence[Sample]) -> Slowdown | None:
    """By the same work alone and beside collectives; None without enough of it.

    Only the same computation on the same shapes is compared: alone in one place of the schedule,
    beside a collective in another.
    """
    slower: list[float] = []
    weights: list[float] = []
    found: list[tuple[Sample, float]] = []
    for equals in _by_shapes(samples).values():
        free = [it for it in equals if it.beside <= _ALONE]
        pressed = [it for it in equals if it.beside >= _BESIDE]
        if free and pressed:
            usual = float(np.median([it.measured_s for it in free]))
            longer = [(it.measured_s / usual - 1) / it.beside for it in pressed]
            slower.append(float(np.median(longer)))
            weights.append(_weight(pressed))
            found += [(it, usual) for it in pressed]
    if sum(weights) < _ENOUGH * _weight(samples):
        return None
    middle = min(max(weighted_median(slower, weights), 0.0), 1.0)
    apart = weighted_median([abs(it - middle) for it in slower], weights)
    return Slowdown(value=middle, apart=apart, kinds=len(slower), pressed=tuple(found))


def weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The value that half of the weight lies below."""
    half, reached = sum(weights) / 2, 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        reached += weight
        if reached >= half:
            return value
    return max(values)


def _unseen(samples: Sequence[Sample]) -> float | None:
    """Error on kinds of work left out in turn."""
    kinds = sorted(_by_shapes(samples).items())
    if len(kinds) < 2:
        return None
    folds = min(_FOLDS, len(kinds))
    off = 0.0
    for turn in range(folds):
        out = [it for at, (_, equals) in enumerate(kinds) if at % folds == turn for it in equals]
        seen = [it for at, (_, equals) in enumerate(kinds) if at % folds != turn for it in equals]
        off += _error(out, _ratio(seen)) * _weight(out)
    return off / _weight(samples)


def _by_shapes(samples: Sequence[Sample]) -> dict[tuple[str, ...], list[Sample]]:
    kinds: dict[tuple[str, ...], list[Sample]] = {}
    for it in samples:
        kinds.setdefault(it.shapes, []).append(it)
    return kinds


def _ratio(samples: Sequence[Sample]) -> float:
    return sum(it.times * it.priced_s for it in samples) / _weight(samples)


def _error(samples: Sequence[Sample], factor: float) -> float:
    """Sum of what single instructions are off by, over their time."""
    off = sum(it.times * abs(it.priced_s / factor - it.measured_s) for it in samples)
    return off / _weight(samples)


def _weight(samples: Sequence[Sample]) -> float:
    return sum(it.weight for it in samples)
