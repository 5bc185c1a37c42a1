"""Startup: the seconds before the steady steps in which a host prepares buffers and arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from counterpoint.core.columns import union
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.finding import MIN_REPORTED_SHARE, bytes_text, ms_text
from counterpoint.diagnose.network.host_transposes import host_transposes
from counterpoint.diagnose.network.host_work import (
    HostWork,
    WorkTotals,
    host_work,
    sized,
)
from counterpoint.diagnose.selection import PS_PER_MS, WindowKind
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.model import Action

_WORTH: Final = 0.1
"""Share of the profile from which idle time before the steps is told."""

_MIN_REPORTED_MS: Final = 100.0
"""Startup times below this are not reported."""


def startup(data: StepData) -> Iterator[str]:
    """Describe the startup; nothing if it was short or the profile shows none.

    Profiles that begin with the program show seconds in which buffers are registered and arrays
    brought into the device's layout, which could be mistaken for the cost of steps. What matters is
    whether that continues in the steps, so both are reported.
    """
    if registered := host_work(data, Action.MAP_BUFFER):
        before = registered.before
        if before.ms > _MIN_REPORTED_MS:
            hosts = {host.name for host in data.timeline.hosts}
            where = f" on {data.timeline.hosts[registered.host].name}" if len(hosts) > 1 else ""
            yield (
                f"startup{where}: {_describe(before, 'DMA registrations (MapDmaBuffer)')}"
                f" {before.ms / 1e3:,.2f} s, summed over threads; {_in_steps(data, registered)}"
            )
    if idle := _idle_before(data) or _host_before(data):
        yield idle
    transposed = host_transposes(data)
    if transposed.busy_ms > _MIN_REPORTED_MS and transposed.before_ms > transposed.in_steps_ms:
        steps = (
            f"in steps {transposed.in_steps_ms:,.2f} ms each"
            if transposed.in_steps_ms
            else "none in the steps"
        )
        yield (
            f"startup: transposes on the host (mostly {transposed.name}) for"
            f" {transposed.before_ms / 1e3:,.2f} s, {transposed.busy_ms / 1e3:,.1f} s summed over"
            f" threads and nested calls; {steps}"
        )


def _idle_before(data: StepData) -> str | None:
    """Describe the gaps longer than a step before the first steady step, if they are large.

    They are in no figure of a step, and a short run consists of them.
    """
    device = min(data.selection.devices, default=0)
    steady = data.timeline.steps.filter("steady", pl.col("device") == device)
    first = steady["start_ps"].min()
    if not isinstance(first, int):
        return None  # no step counts
    own = data.timeline.spans.lazy().filter(pl.col("device") == device)
    early = own.filter(pl.col("start_ps") < first).select("start_ps", "dur_ps").collect()
    begin, end = (
        own.select(
            begin=pl.col("start_ps").min(), end=(pl.col("start_ps") + pl.col("dur_ps")).max()
        )
        .collect()
        .row(0)
    )
    start = early["start_ps"].to_numpy()
    busy = union(start, start + early["dur_ps"].to_numpy())
    gaps = (np.append(busy.start, first)[1:] - busy.end) / PS_PER_MS
    whole_ms = (end - begin) / PS_PER_MS
    long = gaps[gaps > data.step_ms]
    if not len(long) or float(long.sum()) < _WORTH * whole_ms:
        return None
    return (
        f"startup: the device is idle for {long.sum() / 1e3:,.3g} of {whole_ms / 1e3:,.3g} s in"
        f" {counted_noun(len(long), 'gap')} longer than a step, before the first step that counts:"
        f" {'it is' if len(long) == 1 else 'they are'} in no figure of a step"
    )


def _host_before(data: StepData) -> str | None:
    """Describe what the host does before the first work of a device, where no step is whole.

    Then the figures are those of the time in which devices work, whatever comes before it.
    """
    timeline = data.timeline
    if data.selection.window is WindowKind.STEP or not len(timeline.host_events):
        return None
    first = timeline.spans["start_ps"].min()
    lines = timeline.host_events["line"].value_counts(sort=True)
    events = timeline.host_events.filter(pl.col("line") == lines["line"][0])
    begin = events["start_ps"].min()
    if not isinstance(first, int) or not isinstance(begin, int):
        return None
    before_ms = (first - begin) / PS_PER_MS
    own = events.filter(pl.col("start_ps") + pl.col("dur_ps") <= first)
    if before_ms < _WORTH * (before_ms + data.step_ms) or not len(own):
        return None
    longest, code = own.sort("dur_ps", descending=True).select("dur_ps", "name").row(0)
    ms, name = int(longest) / PS_PER_MS, timeline.host_names[int(code)]
    what = f", {ms_text(ms)} of it in {name}" if ms > before_ms / 2 else ""
    return (
        f"startup: the host is recorded from {ms_text(before_ms)} before the first work of a"
        f" device on{what}: that is in no figure"
    )


def _describe(work: WorkTotals, what: str) -> str:
    size = f" of {bytes_text(work.bytes)}" if work.bytes else ""
    return f"{work.count:,.0f} {what}{size} took"


def _in_steps(data: StepData, registered: HostWork) -> str:
    """Return what goes on in the steps, and that it is little where no finding is made of it."""
    each = registered.per_step
    if not each.count:
        return "none in its steady steps"
    little = registered.saves_ms(data.step_ms) is None
    why = f", below {MIN_REPORTED_SHARE:.0%} of the step, so no finding" if little else ""
    which = f"{registered.steps} of its {registered.of_steps} steady steps have such calls"
    return f"{which}: {each.count:,.1f} per step{sized(each.bytes)}, {each.ms:,.2f} ms{why}"
