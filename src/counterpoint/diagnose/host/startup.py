"""Start-up: what the host did before the steady steps, where one might take it for their cost.

Profiles that begin with the program show seconds of buffers being registered and of arrays brought
into the device's layout. Whether that goes on in the steps is what matters: both are told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.metrics.host_transposes import host_transposes
from counterpoint.diagnose.network.host_work import Work, host_work
from counterpoint.timeline.model import Action

_WORTH_A_WORD_MS: Final = 100.0
"""Less is not what anybody looks for."""


def startup(case: Case) -> Iterator[str]:
    """In words; nothing where it was short, or where the profile shows none."""
    if registered := host_work(case, Action.MAP_BUFFER):
        before, each = registered.before, registered.per_step
        if before.ms > _WORTH_A_WORD_MS:
            yield (
                f"start-up: {_told(before, 'DMA registrations')}"
                f" {before.ms / 1e3:,.2f} s, summed over threads; {_in_steps(each)}"
            )
    transposed = host_transposes(case)
    if transposed.busy_ms > _WORTH_A_WORD_MS and transposed.before_ms > transposed.in_steps_ms:
        steps = (
            f"in steps {transposed.in_steps_ms:,.2f} ms each"
            if transposed.in_steps_ms
            else "none of it in the steps"
        )
        yield (
            f"start-up: transposes on the host (most of it {transposed.name}) for"
            f" {transposed.before_ms / 1e3:,.2f} s, {transposed.busy_ms / 1e3:,.1f} s summed over"
            f" threads and nested calls; {steps}"
        )


def _told(work: Work, what: str) -> str:
    size = f" of {work.bytes / 1e9:,.1f} GB" if work.bytes else ""
    return f"{work.count:,.0f} {what}{size} took"


def _in_steps(each: Work) -> str:
    if not each.count:
        return "none in the steady steps"
    return f"steady steps have {each.count:,.1f} each, {each.ms:,.2f} ms"
