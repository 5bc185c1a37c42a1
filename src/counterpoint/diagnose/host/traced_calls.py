"""Calls of Python that the profiler recorded one by one, and what recording them costs."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from counterpoint.core import Range
from counterpoint.diagnose.host.hosts import calling_line
from counterpoint.diagnose.host.threads import TRACED
from counterpoint.diagnose.step_data import StepData

CALL_US: Final = Range(0.15, 0.6)
"""What recording a call of Python costs: loops of calls without work, and operations of JAX."""


def recorded_calls(data: StepData) -> float:
    """Return how many calls of Python a step has on the thread that launches, by its records."""
    timeline, windows = data.timeline, data.selection.windows
    device = int(windows["device"][0])
    own = windows.filter(pl.col("device") == device)
    host = timeline.devices[device].host
    events = timeline.host_events.filter(pl.col("host") == host)
    line = calling_line(events, timeline.host_names)
    traced = [code for code, name in enumerate(timeline.host_names) if name.startswith(TRACED)]
    starts = (
        events.filter((pl.col("line") == line) & pl.col("name").is_in(traced))["start_ps"]
        .sort()
        .to_numpy()
    )
    begun, over = (np.searchsorted(starts, own[name].to_numpy()) for name in ("start_ps", "end_ps"))
    return float((over - begun).mean())
