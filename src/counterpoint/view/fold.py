"""Many devices folded into one lane: how much of each class, and between which limits they vary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from counterpoint.core.frozen import frozen
from counterpoint.view.lanes import COMPUTE, HIDDEN, SUMMARY
from counterpoint.view.segments import BASE, Longs, Segments

_FEWEST_BUCKETS: Final = 8192
_MOST_BUCKETS: Final = 131072
_CELLS: Final = 1 << 23
"""Buckets times devices of the finest level, at most, except of very many devices."""
_FEWEST: Final = 128
_NARROWEST: Final = 1000


@frozen(eq=False, kw_only=True)
class FoldLevel:
    """Buckets of one width in which any device does something.

    `times` has the time of each class, summed over the devices, and `busy` the least, the median
    and the most time that single devices compute.
    """

    width: int
    start: Longs
    times: Longs
    busy: Longs


def folded(summaries: Iterable[Segments], end: int) -> list[FoldLevel]:
    """Return the levels of a fold, the finest first."""
    summaries = list(summaries)
    most = min(max(_CELLS // len(summaries), _FEWEST_BUCKETS), _MOST_BUCKETS)
    width = _NARROWEST
    while width * most < end:
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
        kept = np.flatnonzero(times.any(axis=0))
        found.append(
            FoldLevel(
                width=width * step,
                start=kept * width * step,
                times=times[:, kept],
                busy=limits[:, kept].astype(np.int64),
            )
        )
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
