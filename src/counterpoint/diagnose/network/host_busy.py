"""When hosts registered or copied buffers: what a transfer meanwhile may have waited for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.intervals import Intervals, union
from counterpoint.timeline.model import Action, Timeline

_WORK: Final = (Action.MAP_BUFFER, Action.MEMORY_COPY)


def host_busy(timeline: Timeline) -> Mapping[int, Intervals]:
    """By host: the time in which at least one of its threads is at such work."""
    work = timeline.transfers.filter(pl.col("action").is_in([*_WORK]))
    found: dict[int, Intervals] = {}
    for (host,), rows in work.group_by("host"):
        start = rows["start_ps"].to_numpy()
        found[int(str(host))] = union(start, start + rows["dur_ps"].to_numpy())
    return found


def spent_within(
    busy: Mapping[int, Intervals], hosts: NDArray[np.int64], start: pl.Series, end: pl.Series
) -> NDArray[np.int64]:
    """Picoseconds of each interval in which its own host was at such work."""
    spent = np.zeros(len(hosts), np.int64)
    for host, when in busy.items():
        mine = hosts == host
        spent[mine] = when.covered(start.to_numpy()[mine], end.to_numpy()[mine])
    return spent
