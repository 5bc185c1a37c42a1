"""Machine: what the price of compute depends on of a Target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from counterpoint.cost.scalars import Scalars
from counterpoint.hardware import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One device, as a kernel sees it. Rates are the data sheet's; scalars say what is reached."""

    chip: str
    # "ampere", "ada", "hopper", "blackwell", "cdna3": whose kernels run on it.
    architecture: str
    flops: Mapping[str, float]  # dense FLOP/s by element type
    memory_bytes_per_s: float
    cores: int
    clock_hz: float
    lanes: int  # scalar multiply-adds of a core per clock
    l2_bytes: int
    host_bytes_per_s: float  # between device and host, one direction
    scalars: Scalars


def machine_of(target: Target, scalars: Scalars) -> Machine:
    """The Machine of a Target."""
    raise NotImplementedError
