"""Startup: the seconds before the steady steps in which a host prepares buffers and arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.diagnose.finding import MIN_REPORTED_SHARE
from counterpoint.diagnose.network.host_transposes import host_transposes
from counterpoint.diagnose.network.host_work import (
    HostWork,
    WorkTotals,
    host_work,
    sized,
)
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline import Action

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


def _describe(work: WorkTotals, what: str) -> str:
    size = f" of {work.bytes / 1e9:,.1f} GB" if work.bytes else ""
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
