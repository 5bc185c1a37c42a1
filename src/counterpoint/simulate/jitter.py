"""Jitter: how the times of real devices scatter about their prices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Jitter:
    """Disturb every piece of work, and let collectives wait for the slowest of their ranks.

    `noise` is the standard deviation of the logarithm of one execution's time; `straggling` that of
    the speed of a whole device over one step.
    """

    noise: float = 0.0
    straggling: float = 0.0
    ranks: int = 1
    samples: int = 64
    seed: int = 0
