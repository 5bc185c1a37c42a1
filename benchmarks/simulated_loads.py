"""What befalls the trials of a study on a machine that is not alone, as logarithms of factors.

A run's step takes `exp(load + own noise)` times what its arm takes. Loads know trials and not arms,
but for the carry-over, which is what a run inherits from the arm that ran before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Draw: TypeAlias = Callable[[int, np.random.Generator], Floats]
PERIODS: Final = range(2, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A kind of noise.

    Args:
        name: For the table.
        draw: Makes the logarithms of as many trials as are asked for.
        sigma: Of each run's own noise, beside what `draw` makes.
        left_over: By how much longer a run takes right after the first arm.
        unsteady: The share of trials that can't be timed.
    """

    name: str
    draw: Draw = lambda trials, _rng: np.zeros(trials)
    sigma: float = 0.005
    left_over: float = 0.0
    unsteady: float = 0.0


def _wandering(sigma: float, correlation: float) -> Draw:
    """A first-order process (AR(1))."""

    def draw(trials: int, rng: np.random.Generator) -> Floats:
        found = np.empty(trials)
        found[0] = rng.normal(0, sigma)
        for at in range(1, trials):
            fresh = rng.normal(0, sigma * math.sqrt(1 - correlation**2))
            found[at] = correlation * found[at - 1] + fresh
        return found

    return draw


def _now_and_then(by: float, share: float) -> Draw:
    """Two modes: so much slower in a share of the runs."""
    return lambda trials, rng: by * (rng.random(trials) < share)


def _drifting(by: float) -> Draw:
    return lambda trials, _rng: by * np.arange(trials)


def _warming_up(by: float, over: int) -> Draw:
    return lambda trials, _rng: by * np.clip(1 - np.arange(trials) / over, 0, None)


def _bursts(by: float, length: int) -> Draw:
    """A load that comes and goes, each for about so many runs."""

    def draw(trials: int, rng: np.random.Generator) -> Floats:
        changes = np.cumsum(rng.random(trials) < 1 / length)
        return by * ((changes + rng.integers(2)) % 2)

    return draw


def _heavy_tails(scale: float) -> Draw:
    """Student's t with two degrees of freedom: its variance is infinite."""
    return lambda trials, rng: np.clip(scale * rng.standard_t(2, trials), -0.5, 2.0)


def _sine(by: float, period: float) -> Draw:
    def draw(trials: int, rng: np.random.Generator) -> Floats:
        return by * np.sin(2 * np.pi * (np.arange(trials) / period + rng.random()))

    return draw


def _square(by: float, period: int) -> Draw:
    """Slow in the first half of each period, and fast in the second."""

    def draw(trials: int, rng: np.random.Generator) -> Floats:
        at = (np.arange(trials) + rng.integers(period)) % period
        return np.where(at < period / 2, by, -by)

    return draw


IID: Final = Load(name="independent, 2%", sigma=0.02)
UNSTEADY: Final = Load(name="independent, 2%; 5% of trials unsteady", sigma=0.02, unsteady=0.05)
LOADS: Final = (
    Load(name="independent, 0.5%"),
    IID,
    UNSTEADY,
    Load(name="AR(1), 1%, rho 0.9", draw=_wandering(0.01, 0.9)),
    Load(name="AR(1), 3%, rho 0.97", draw=_wandering(0.03, 0.97)),
    Load(name="two modes, 8% apart, half the runs", draw=_now_and_then(0.08, 0.5)),
    Load(name="two modes, 8% apart, a tenth", draw=_now_and_then(0.08, 0.1)),
    Load(name="drift, 1% a run", draw=_drifting(0.01)),
    Load(name="warm-up, 5% over 5 runs", draw=_warming_up(0.05, 5)),
    Load(name="bursts, 5% for 8 runs", draw=_bursts(0.05, 8)),
    Load(name="bursts, 30% for 12 runs", draw=_bursts(0.30, 12)),
    Load(name="heavy tails, 1%", draw=_heavy_tails(0.01), sigma=0.0),
    Load(name="carry-over, 1%", sigma=0.01, left_over=0.01),
    Load(name="carry-over, 2%", sigma=0.01, left_over=0.02),
    *(Load(name=f"sine, 2%, {period} trials", draw=_sine(0.02, period)) for period in PERIODS),
    *(Load(name=f"square, 2%, {period} trials", draw=_square(0.02, period)) for period in PERIODS),
)
