"""Company: how much of an op's time a collective runs beside it, and takes cores and bandwidth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from counterpoint.core.intervals import union
from counterpoint.timeline.model import Lane, Timeline


def shares_beside(timeline: Timeline, spans: pl.DataFrame, ops: Sequence[int]) -> dict[int, float]:
    """By row of the Timeline's ops, over all their spans; `spans` are sorted by device."""
    lanes = timeline.ops["lane"]
    talking = (lanes == Lane.COLLECTIVE).fill_null(value=False).to_numpy()
    asked = np.zeros(len(lanes), bool)
    asked[list(ops)] = True
    device, op = spans["device"].to_numpy(), spans["op"].to_numpy()
    start, length = spans["start_ps"].to_numpy(), spans["dur_ps"].to_numpy()
    beside = np.zeros(len(lanes), np.int64)
    whole = np.zeros(len(lanes), np.int64)
    for one in np.unique(device):
        mine = slice(*np.searchsorted(device, [one, one + 1]))
        of = op[mine]
        begins, ends = start[mine], start[mine] + length[mine]
        busy = union(begins[talking[of]], ends[talking[of]])
        kept = asked[of]
        np.add.at(beside, of[kept], busy.covered(begins[kept], ends[kept]))
        np.add.at(whole, of[kept], length[mine][kept])
    return {row: float(beside[row] / whole[row]) if whole[row] else 0.0 for row in ops}
