"""Hosts and devices of a Timeline."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_PROCESS: Final = re.compile(r" (#\d+|\(process \d+\))$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator (or one virtual CPU device), as the profile describes it."""

    ordinal: int  # number on its host
    kind: str  # "gpu", "tpu", "cpu"
    host: int = 0
    chip: str | None = None
    peak_flops: float | None = None  # FLOP/s of the widest matrix type, if the profile has it
    peak_bytes: float | None = None  # bytes/s of device memory, if the profile has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine (or one process) that wrote a profile.

    `clock_offset_ps` was subtracted from its times; None if there was nothing to align on.
    `clock_spread_ps` is the median deviation of single collectives from it: times of this host and
    the first host cannot be compared more precisely than that.
    """

    name: str
    source: str
    clock_offset_ps: int | None = None
    clock_spread_ps: int | None = None

    @property
    def target(self) -> str | None:
        """The target in the name: earlier versions stored that of a prediction only there."""
        _, _, target = self.name.removeprefix("one device stands for ").partition(" of ")
        return target or None

    @property
    def machine(self) -> str:
        """The name without the number that distinguishes processes of one machine."""
        return _PROCESS.sub("", self.name)
