"""The statistic that makes one cost of many times: a percentile, the median unless told otherwise.

Between two times it lies on the straight line, so with three runs the 90th is near the slowest.
(JAX takes the time at the place below: its 90th percentile of three runs is their median.)
"""

from __future__ import annotations

from typing import Final

from counterpoint.core.errors import UsageError

MEDIAN: Final = 50.0
DECIMALS: Final = 6
"""Of a microsecond: costs end at the picosecond, as profilers' clocks do."""


def check_percentile(percentile: float) -> None:
    """Refuse what is no percentile."""
    if not 0 <= percentile <= 100:
        raise UsageError(
            f"a percentile lies between 0 and 100, not at {percentile:g}", next="--percentile 50"
        )


def settled_us(us: float) -> float:
    """A cost without the digits that arithmetic adds."""
    return round(us, DECIMALS)
