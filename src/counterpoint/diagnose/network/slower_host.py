"""Slower host: whose devices compute longer than others', so that other slices wait for them.

A profile does not number slices; its hosts are those of one slice or another. What devices compute
in a step can be compared whatever their clocks say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.selection import device_slices
from counterpoint.diagnose.step import device_breakdowns
from counterpoint.timeline.host_transfers import host_transfers

_OF_STEP: Final = 0.01
"""A difference below this share of the step is scatter."""


@dataclass(frozen=True, slots=True)
class SlowerHost:
    """Milliseconds of a median step, means over devices; `others_ms` the median of other hosts."""

    host: int
    compute_ms: float
    others_ms: float

    @property
    def longer_ms(self) -> float:
        """By how much."""
        return self.compute_ms - self.others_ms


def slower_host(case: Case) -> SlowerHost | None:
    """The host that computes longest; None where there is one, or all compute alike."""
    by_host: dict[int, list[float]] = {}
    for device, parts in device_breakdowns(case.selection, case.attributed).items():
        by_host.setdefault(case.timeline.devices[device].host, []).append(parts.compute_ms)
    means = {host: float(np.mean(values)) for host, values in by_host.items()}
    if len(means) < 2:
        return None
    worst = max(means, key=lambda host: means[host])
    others = float(np.median([ms for host, ms in means.items() if host != worst]))
    found = SlowerHost(worst, means[worst], others)
    return found if found.longer_ms > _OF_STEP * case.step_ms else None


def longest_wait_ms(case: Case, *, idle: bool) -> float:
    """Per median step, of the device that stands longest in transfers between slices.

    With `idle`, what it stands idle counts too: who waits for a late slice waits there as well.
    A step can't gain more: the longest-waiting device has nothing else to wait for.
    """
    ops = host_transfers(case.timeline)["row"].to_list()
    inside = case.spans.filter(pl.col("op").is_in(ops) & pl.col("step").is_not_null())
    waited = dict(inside.group_by("device").agg(pl.col("dur_ps").sum()).iter_rows())
    whole = case.selection.scale * case.selection.occurrences
    slices = device_slices(case.selection.windows)
    return max(
        (
            # A window of something asynchronous is no wait: what is exposed bounds it.
            min(
                waited.get(device, 0) * whole / (slices[device].stop - slices[device].start),
                parts.collective_exposed_ms,
            )
            + (parts.idle_ms if idle else 0.0)
            for device, parts in device_breakdowns(case.selection, case.attributed).items()
        ),
        default=0.0,
    )
