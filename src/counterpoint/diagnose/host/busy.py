"""When devices work: the spans that do, per device and on any of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.intervals import Intervals, union
from counterpoint.diagnose.case import Case
from counterpoint.timeline.model import Lane

Longs = NDArray[np.int64]


def by_device(case: Case) -> Iterator[tuple[int, tuple[Longs, Longs], pl.DataFrame]]:
    """Each device with starts and ends of its windows and its spans around them."""
    devices = case.spans["device"].to_numpy()
    windows = case.selection.windows
    of_window = windows["device"].to_numpy()
    for device in case.selection.devices:
        first, last = np.searchsorted(of_window, [device, device + 1])
        if last > first:
            mine = windows[int(first) : int(last)]
            one, other = np.searchsorted(devices, [device, device + 1])
            yield (
                device,
                (mine["start_ps"].to_numpy(), mine["end_ps"].to_numpy()),
                case.spans[int(one) : int(other)],
            )


def busy(case: Case, spans: pl.DataFrame) -> Intervals:
    """When any of these spans works; loops and calls only contain those that do."""
    contains = (case.timeline.ops["lane"] == Lane.CONTROL).to_numpy()
    start = spans["start_ps"].to_numpy()
    end = start + spans["dur_ps"].to_numpy()
    works = ~contains[spans["op"].to_numpy()]
    return union(start[works], end[works])


def busy_anywhere(case: Case) -> Intervals:
    """When any device works, by the clock that they share."""
    return busy(case, case.spans)
