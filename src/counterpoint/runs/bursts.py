"""Decides whether arrival times of lines can be used as step times.

A program that fills a block of output before it writes (into a pipe, for example), or that is read
late, delivers many lines at once: the gaps between them then reflect the reading. If more than a
third of the gaps is under a millisecond, no gap is used. So steps that really are that short are
not timed by lines either.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

_AT_ONCE: Final = 1e-3  # seconds
_TOO_MANY: Final = 1 / 3
BURSTS: Final = "lines came in bursts"


def in_bursts(arrivals: Sequence[float]) -> bool:
    """Return whether too many lines arrived together for the others to be trusted."""
    gaps = [after - before for before, after in pairwise(arrivals)]
    return sum(gap < _AT_ONCE for gap in gaps) > _TOO_MANY * len(gaps)
