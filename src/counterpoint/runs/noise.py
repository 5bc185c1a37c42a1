"""By how much runs differ that should not: what any comparison of them must exceed.

Steps of one run can't tell how much runs differ. But a machine whose steps scatter, or drift from
one stretch of a run to the next, is shared or throttled, and another run meets it in another mood:
so runs are taken to differ by at least as much as the steps of one do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median, stdev
from typing import Final

CONFIDENCE: Final = 0.95
INDIFFERENT: Final = 0.005
"""A change within this share of the step, both ways, is no change (rule of thumb)."""
RUNS_DIFFER: Final = 0.013
"""By how much identical runs of a well-run job have been seen to differ (rule of thumb)."""
_TO_SPREAD: Final = 1.4826  # from a median deviation to a normal distribution's sigma
_BLOCKS: Final = 4
_BLOCK: Final = 4  # steps at least, where there are so many


def student(freedom: int, comparisons: int = 1) -> float:
    """Student's t for a two-sided interval of `CONFIDENCE`, shared by so many comparisons."""
    from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs]

    return float(stdtrit(freedom, 1 - (1 - CONFIDENCE) / 2 / max(comparisons, 1)))


def assumed(a: Sequence[float], b: Sequence[float]) -> float:
    """By how much the logarithms of two medians may differ though nothing changed (95 %).

    `a` and `b` are the steps of one run each. Their scatter and drift, as if it were that of runs,
    and in quadrature what the quietest runs differ by.
    """
    spreads = [spread(it) for it in (a, b)]
    freedom = sum(len(_blocks(it)) - 1 for it in (a, b))
    if freedom < 2:
        return math.inf
    of_runs = student(freedom) * math.sqrt(2) * max(spreads)
    return math.hypot(of_runs, RUNS_DIFFER)


def spread(steps: Sequence[float]) -> float:
    """Sigma of a run's steps as a share: of step to step, or of long blocks where that is more.

    Outliers count for nothing in the first, and slow drift for all in the second.
    """
    logs = [math.log(it) for it in steps]
    middle = median(logs)
    scatter = _TO_SPREAD * median(abs(it - middle) for it in logs)
    blocks = [median(it) for it in _blocks(logs)]
    return max(scatter, stdev(blocks) if len(blocks) > 1 else 0.0)


def _blocks(steps: Sequence[float]) -> list[Sequence[float]]:
    count = min(max(len(steps) // _BLOCK, 2), _BLOCKS, len(steps))
    edges = [len(steps) * at // count for at in range(count + 1)]
    return [steps[low:high] for low, high in pairwise(edges)]
