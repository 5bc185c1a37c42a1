"""Premap: the region that a host registers once for all transfers between slices, and its size.

A buffer outside of it is registered for each transfer, which delays it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.finding import Remedy
from counterpoint.diagnose.network.host_work import HostWork
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.host_transfers import host_transfers
from counterpoint.timeline.model import Action

FLAG: Final = "megascale_grpc_premap_memory_bytes"
DEFAULT: Final = 4 << 30
"""From flags/recipes/megascale.toml, with its source."""

MOST: Final = 64 << 30
"""A rule of thumb: hosts of TPUs have some 200 to 1,500 GB, and need it for more than a region."""

_NEARLY: Final = 0.01  # the runtime prints sizes with three digits: 4.29GB is 4 GiB
_VARIABLE: Final = "LIBTPU_INIT_ARGS"
_GIVEN: Final = re.compile(rf"--{FLAG}[= ](\d{{1,18}})")
_MEGASCALES_OWN: Final = (
    Action.SEND,
    Action.RECEIVE,
    Action.DEVICE_TO_HOST,
    Action.HOST_TO_DEVICE,
    Action.MEMORY_COPY,
)


@dataclass(frozen=True, slots=True)
class Premap:
    """Size of the premapped region in bytes: its current value and source, and the shortfall."""

    now: int
    known_by: str
    lacked: int

    @property
    def value(self) -> int:
        """The next power of two that holds both."""
        return 1 << (self.now + self.lacked - 1).bit_length()

    @property
    def is_possible(self) -> bool:
        """True if a host can spare that much memory."""
        return self.value <= MOST

    def __str__(self) -> str:
        return (
            f"{self.now / 2**30:,.3g} GiB ({self.known_by}) plus {self.lacked / 1e6:,.1f} MB for"
            f" one step, rounded up to a power of two: {self.value / 2**30:,.0f} GiB"
        )


def spans_slices(data: StepData) -> bool:
    """Return whether the profile shows any transfers between slices."""
    timeline = data.timeline
    carried = timeline.transfers.select(pl.col("action").is_in([*_MEGASCALES_OWN]).any()).item()
    return bool(carried) or len(host_transfers(timeline)) > 0


def premap(data: StepData, work: HostWork) -> Premap | None:
    """Return the size the region should have; None if the profile has no sizes.

    `--megascale_grpc_premap_memory_bytes` is a flag of libtpu, read from LIBTPU_INIT_ARGS once per
    process. The region is registered at startup; buffers that don't fit are registered or copied
    when they are needed. So it should hold its current size and what did not fit in a step.
    """
    if not work.largest_bytes:
        return None
    given = _GIVEN.search((data.context.environment or {}).get(_VARIABLE, ""))
    flag = (data.context.flags or {}).get(FLAG, "")
    setting = given[1] if given else flag
    if setting.isdecimal():
        return Premap(int(setting), "its setting", work.largest_bytes)
    region = _rounded(work.region_bytes or 0)
    if region >= DEFAULT:
        return Premap(region, "registered at startup", work.largest_bytes)
    return Premap(DEFAULT, "its default", work.largest_bytes)


def _rounded(size: int) -> int:
    """Round to a power of two if the printed digits allow it."""
    power = 1 << max(0, round(math.log2(size))) if size else 0
    return power if abs(size - power) <= _NEARLY * power else size


def enlarged(data: StepData, work: HostWork) -> Remedy:
    """Return the remedy: the flag with a computed value, added to LIBTPU_INIT_ARGS."""
    size = premap(data, work)
    if size is None:
        return advise(
            data,
            f"double --{FLAG} (in {_VARIABLE}; default {DEFAULT >> 30} GiB) and profile again:"
            " the profile has no sizes from which to compute a value",
        )
    if not size.is_possible:
        return advise(
            data,
            "reuse buffers instead of allocating new ones for each transfer, and send fewer or"
            f" smaller pieces: --{FLAG} would have to be {size}, more than a host can spare",
        )
    given = (data.context.environment or {}).get(_VARIABLE, "")
    kept = _GIVEN.sub("", given).split()
    value = " ".join([*kept, f"--{FLAG}={size.value}"])
    return advise(
        data,
        f"raise --{FLAG} to {size.value} in {_VARIABLE}: {size}",
        environment={_VARIABLE: value},
    )
