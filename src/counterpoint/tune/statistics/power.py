"""How many rows a gain takes to be seen."""

from __future__ import annotations

import math
from typing import Final

from counterpoint.core.basis import Unknown
from counterpoint.tune.statistics.estimate import Noise, Rule
from counterpoint.tune.statistics.levels import share

POWER: Final = 0.9
_MOST: Final = 1000


def rows_needed(noise: Noise, gain: float, rule: Rule, *, most: int = _MOST) -> int | Unknown:
    """After how many rows a gain is called one in nine of ten studies.

    At the last look of the rule, for an arm that shares with `rule.arms` of them, by its own pairs
    alone. So for a confirmation: `Rule(looks=(), arms=1)`. Unknown beyond `most`.
    """
    if isinstance(noise.sigma, Unknown):
        return noise.sigma
    if not 0 < abs(gain) < 1:
        return Unknown(f"a gain of {gain:.1%} is none that rows could show")
    level = (1 - rule.confidence) * share(rule, rule.cap) / max(rule.arms, 1)
    size = abs(math.log1p(-gain)) / noise.sigma
    for rows in range(2, most + 1):
        if _power(rows, size, level) >= POWER:
            return rows
    return Unknown(f"to see {gain:.2%} here takes more than {most} rows")


def _power(rows: int, size: float, level: float) -> float:
    """Of the paired t-test, for an effect of so many sigmas of a pair."""
    from scipy.special import nctdtr, stdtrit  # pyright: ignore[reportMissingTypeStubs]

    freedom = rows - 1
    reached = float(nctdtr(freedom, size * math.sqrt(rows), float(stdtrit(freedom, 1 - level / 2))))
    return 1 - reached if math.isfinite(reached) else 1.0
