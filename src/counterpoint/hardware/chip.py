"""What a chip can do at most, by the name a profile gives it.

Peaks are the makers' dense figures (no structured sparsity), per device as JAX counts devices.
They are ceilings, for comparison (MFU) and for the cost model to derate, not what a kernel reaches.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One kind of device."""

    name: str
    pattern: str  # matches the names that profiles give it
    # Dense FLOP/s by element type: bf16, f16, tf32, f32, f64, f8, s8 and f4, where the chip has it.
    flops: Mapping[str, float]
    hbm_bytes: float  # bytes/s
    memory_bytes: float
    source: str

    @property
    def bf16_flops(self) -> float:
        return self.flops["bf16"]


_PART: Final = re.compile(r"\bMIG\b", re.IGNORECASE)
"""A slice of a GPU has its name with this behind it, and a part of its rates."""


@cache
def chips() -> tuple[Chip, ...]:
    """All chips known, in the order in which names are tried."""
    text = resources.files("counterpoint.hardware").joinpath("chips.toml").read_text("utf-8")
    return tuple(Chip(**entry) for entry in tomllib.loads(text)["chip"])


def find_chip(name: str | None) -> Chip | None:
    """The chip that a profile calls by this name; None when it names none that is known."""
    if name is None or _PART.search(name):
        return None
    return next((chip for chip in chips() if re.search(chip.pattern, name, re.IGNORECASE)), None)


def chip_named(name: str) -> Chip | None:
    """The chip of exactly this name in the data."""
    return next((chip for chip in chips() if chip.name == name), None)
