"""The steps and programs that an XSpace names, found before its events are decoded.

TPU planes have lines for them. On other devices the host marks steps, on the thread that launches
them, which has few events.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import polars as pl

from counterpoint.timeline.recording import Recording
from counterpoint.timeline.xplane.arrange import ArrangedHost, arrange_host
from counterpoint.timeline.xplane.collect import Collector
from counterpoint.timeline.xplane.events import Events
from counterpoint.timeline.xplane.lines import read_arranged, read_events
from counterpoint.timeline.xplane.planes import (
    DEVICE,
    HOST,
    MODULE_LINE,
    OP_STATS,
    STEP_LINE,
    Plane,
    PlaneLine,
    describe_device,
    read_planes,
)

_SOUGHT_IN: Final = 0.25
"""Share of a capture in which the host's markers are sought."""


def read_marks(data: memoryview, source: str) -> Recording:
    """Return a Recording without spans: devices, steps, and executions of programs."""
    planes, collector = _opened(data)
    for plane in planes:
        if match := DEVICE.match(plane.name):
            number = int(match[2])
            device = collector.device(describe_device(plane, match[1].lower(), number))
            _add_lines(data, plane, device, collector)
    if not _has_lines(planes):
        _add_host_markers(data, planes, collector)
    return collector.finish(
        source=source, host=source, programs={}, environment={}, notes=(), truncated=False
    )


def read_host_markers(data: memoryview) -> pl.DataFrame:
    """Return the markers of the host; none where devices have lines for steps or programs."""
    planes, collector = _opened(data)
    if not _has_lines(planes):
        _add_host_markers(data, planes, collector)
    return collector.markers


def _opened(data: memoryview) -> tuple[list[Plane], Collector]:
    planes = list(read_planes(data))
    collector = Collector()
    collector.begin_piece([line.timestamp_ns for plane in planes for line in plane.lines], 0)
    return planes, collector


def _has_lines(planes: Sequence[Plane]) -> bool:
    return any(line.name in (STEP_LINE, MODULE_LINE) for plane in planes for line in plane.lines)


def _add_lines(data: memoryview, plane: Plane, device: int, collector: Collector) -> None:
    wanted = plane.selection(OP_STATS)
    for line in plane.lines:
        add = {MODULE_LINE: collector.add_executions, STEP_LINE: collector.add_steps}.get(line.name)
        if add is not None:
            for events, _ in read_events(data, line.start, line.end, wanted, plane.strings):
                add(plane, device, line, events)


def _add_host_markers(data: memoryview, planes: Sequence[Plane], collector: Collector) -> None:
    left = _SOUGHT_IN * len(data)
    for plane in (plane for plane in planes if plane.name == HOST):
        wanted = plane.selection((plane.marker_stat, *OP_STATS, "device_ordinal"))
        for line in sorted(plane.lines, key=lambda line: line.end - line.start):
            left -= line.end - line.start
            if left < 0:
                break
            where = (data, line.start, line.end, wanted, plane.strings)
            arrange = partial(_only_marks, plane, line, collector.zero_ns)
            for arranged, _ in read_arranged(*where, arrange):
                collector.add_host_events(plane, arranged)


def _only_marks(plane: Plane, line: PlaneLine, zero_ns: int, events: Events) -> ArrangedHost:
    marks = events.select(events.known(plane.marker_stat), events.stats)
    return arrange_host(marks, line, zero_ns, {})
