"""Premap: how much host memory Megascale should register ahead, of what a profile shows it lacked.

`--megascale_grpc_premap_memory_bytes` is a flag of libtpu: read from LIBTPU_INIT_ARGS once per
process. The region is registered at start-up; buffers that don't fit are registered, or copied,
when they are needed. So it should hold what it holds now and what a step did not find room for.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.diagnose.advise import advise
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.finding import Remedy
from counterpoint.diagnose.network.host_work import HostWork
from counterpoint.timeline.host_transfers import host_transfers
from counterpoint.timeline.model import Action

FLAG: Final = "megascale_grpc_premap_memory_bytes"
DEFAULT: Final = 4 << 30
"""flags/advice/recipes/megascale.toml, with its source."""

MOST: Final = 64 << 30
"""A rule of thumb: hosts of TPUs have some 200 to 1,500 GB, and more than a region to hold."""

_NEARLY: Final = 0.01  # the runtime tells sizes in three digits: 4.29GB is 4 GiB
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
    """Bytes: what is set now, how that is known, and what a step lacked."""

    now: int
    known_by: str
    lacked: int

    @property
    def value(self) -> int:
        """The next power of two that holds both."""
        return 1 << (self.now + self.lacked - 1).bit_length()

    @property
    def is_possible(self) -> bool:
        """Whether a host can have that much memory to spare."""
        return self.value <= MOST

    def __str__(self) -> str:
        return (
            f"{self.now / 2**30:,.3g} GiB ({self.known_by}) and the {self.lacked / 1e6:,.1f} MB of"
            f" one step, rounded up to a power of two: {self.value / 2**30:,.0f} GiB"
        )


def spans_slices(case: Case) -> bool:
    """Whether anything in the profile tells of transfers between slices."""
    timeline = case.timeline
    carried = timeline.transfers.select(pl.col("action").is_in([*_MEGASCALES_OWN]).any()).item()
    return bool(carried) or len(host_transfers(timeline)) > 0


def premap(case: Case, work: HostWork) -> Premap | None:
    """What the region should hold; None where the profile has no sizes."""
    if not work.largest_bytes:
        return None
    given = _GIVEN.search((case.context.environment or {}).get(_VARIABLE, ""))
    flag = (case.context.flags or {}).get(FLAG, "")
    told = given[1] if given else flag
    if told.isdecimal():
        return Premap(int(told), "as it is set", work.largest_bytes)
    region = _rounded(work.region_bytes or 0)
    if region >= DEFAULT:
        return Premap(region, "as it is registered at start-up", work.largest_bytes)
    return Premap(DEFAULT, "its default, nothing else being known", work.largest_bytes)


def _rounded(size: int) -> int:
    """As a power of two, where it is one but for its digits."""
    power = 1 << max(0, round(math.log2(size))) if size else 0
    return power if abs(size - power) <= _NEARLY * power else size


def enlarged(case: Case, work: HostWork) -> Remedy:
    """The remedy: the flag with a computed value, beside what LIBTPU_INIT_ARGS says already."""
    found = premap(case, work)
    if found is None:
        return advise(
            case,
            f"double --{FLAG} (in {_VARIABLE}; {DEFAULT >> 30} GiB where it is not set) and look"
            " again: the profile tells no sizes to compute a value from",
        )
    if not found.is_possible:
        return advise(
            case,
            "use buffers again instead of new ones for each transfer, and send in fewer or smaller"
            f" pieces: --{FLAG} would have to hold {found}, more than a host can spare",
        )
    given = (case.context.environment or {}).get(_VARIABLE, "")
    kept = _GIVEN.sub("", given).split()
    value = " ".join([*kept, f"--{FLAG}={found.value}"])
    return advise(
        case,
        f"raise --{FLAG} to {found.value} in {_VARIABLE}: {found}",
        environment={_VARIABLE: value},
    )
