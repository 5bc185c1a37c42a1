"""Many devices folded into one lane: how much of each class, and between which limits they vary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from counterpoint.core.frozen import frozen
from counterpoint.view.lanes import COMPUTE, HIDDEN, SUMMARY
from counterpoint.view.segments import BASE, Longs, Segments

_BUCKETS: Final = 8192
"""Buckets of the finest level: a few for each pixel of a wide screen."""
_FEWEST: Final = 128
_NARROWEST: Final = 1000


@frozen(eq=False, kw_only=True)
class FoldLevel:
    """Buckets of one width that follow each other: time of each class, summed over the devices.

    `busy` holds the least, the median and the most time that single devices compute.
    """

    width: int
    times: Longs
    busy: Longs


def folded(summaries: Iterable[Segments], end: int) -> list[FoldLevel]:
    """Return the levels of a fold, the finest first."""
    width = _NARROWEST
    while width * _BUCKETS < end:
        width *= BASE
    grid = np.arange(0, end + width, width)
    grids = [_until(summary, grid) for summary in summaries]
    found: list[FoldLevel] = []
    step = 1
    while not found or len(grid) // step >= _FEWEST:
        times = np.zeros((len(SUMMARY), -(-(len(grid) - 1) // step)), np.int64)
        busy = np.empty((len(grids), times.shape[1]), np.int64)
        chosen = np.minimum(np.arange(times.shape[1] + 1) * step, len(grid) - 1)
        for device, until in enumerate(grids):
            own = np.diff(until[:, chosen], axis=1)
            times += own
            busy[device] = own[COMPUTE] + own[HIDDEN]
        limits = np.stack([busy.min(axis=0), np.median(busy, axis=0), busy.max(axis=0)])
        found.append(FoldLevel(width=width * step, times=times, busy=limits.astype(np.int64)))
        step *= BASE
    return found


def _until(summary: Segments, at: Longs) -> Longs:
    """Return the time of each class before each moment."""
    if not len(summary):
        return np.zeros((len(SUMMARY), len(at)), np.int64)
    before = np.concatenate(
        [np.zeros((len(SUMMARY), 1), np.int64), np.cumsum(summary.times, axis=1)], axis=1
    )
    last = np.searchsorted(summary.start, at, side="right") - 1
    known = np.maximum(last, 0)
    inside = np.clip(at - summary.start[known], 0, summary.end[known] - summary.start[known])
    partial = np.where(summary.times[:, known] > 0, inside, 0)
    return np.where(last < 0, 0, before[:, known] + partial)
