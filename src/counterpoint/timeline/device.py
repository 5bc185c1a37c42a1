"""Hosts and devices of a Timeline."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_PROCESS: Final = re.compile(r" (#\d+|\(process \d+\))$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator (or one virtual CPU device) and what the profile says of it."""

    ordinal: int  # as its host counts
    kind: str  # "gpu", "tpu", "cpu"
    host: int = 0
    chip: str | None = None
    peak_flops: float | None = None  # FLOP/s of the widest matrix type, if the profile tells
    peak_bytes: float | None = None  # bytes/s of device memory, likewise


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine (or one process) that wrote a profile.

    `clock_offset_ps` was subtracted from its times; null when there was nothing to align on.
    `clock_spread_ps` is how far single collectives stray from it (median): times of this host and
    the first can't be compared more finely than that.
    """

    name: str
    source: str
    clock_offset_ps: int | None = None
    clock_spread_ps: int | None = None

    @property
    def machine(self) -> str:
        """The name without the number that tells processes of one machine apart."""
        return _PROCESS.sub("", self.name)
