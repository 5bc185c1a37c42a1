"""By how much runs differ that should not: what any comparison of them must exceed."""

from __future__ import annotations

from typing import Final

CONFIDENCE: Final = 0.95
INDIFFERENT: Final = 0.005
"""A change within this share of the step, both ways, is no change (rule of thumb)."""
RUNS_DIFFER: Final = 0.013
"""By how much identical runs of a well-run job have been seen to differ (rule of thumb)."""


def student(freedom: int) -> float:
    """Student's t for a two-sided interval of `CONFIDENCE`."""
    from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs]

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
