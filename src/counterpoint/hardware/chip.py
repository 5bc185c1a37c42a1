"""Chips: the peak rates of accelerators by their vendors' names (chips.toml)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

_PART: Final = re.compile(r"\bMIG\b", re.IGNORECASE)
"""Marks the name of a slice of a GPU, which has only part of its rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One kind of device.

    Peaks are the makers' dense figures (no structured sparsity), per device as JAX counts devices.
    They are upper bounds, for comparison (MFU) and for the cost model to derate; no kernel reaches
    them.
    """

    name: str
    pattern: str  # matches its names in profiles
    # Dense FLOP/s by element type: bf16, f16, tf32, f32, f64, f8, s8 and f4, if the chip has it.
    flops: Mapping[str, float]
    hbm_bytes: float  # bytes/s
    memory_bytes: float
    source: str

    @property
    def bf16_flops(self) -> float:
        return self.flops["bf16"]


@cache
def chips() -> tuple[Chip, ...]:
    """Return all known chips, in the order in which their patterns are tried."""
    text = resources.files("counterpoint.hardware").joinpath("chips.toml").read_text("utf-8")
    return tuple(Chip(**entry) for entry in tomllib.loads(text)["chip"])


def find_chip(name: str | None) -> Chip | None:
    """Return the chip with this name in profiles; None if it is unknown."""
    if name is None or _PART.search(name):
        return None
    return next((chip for chip in chips() if re.search(chip.pattern, name, re.IGNORECASE)), None)


def chip_label(name: str | None, kind: str) -> str:
    """Return how reports name a device: `MI300X (gpu)`, or `gpu (chip not recorded)`.

    A chip that is not known keeps the name that its profile records.
    """
    chip = find_chip(name)
    named = chip.name if chip else name
    return f"{named} ({kind})" if named else f"{kind} (chip not recorded)"


def chip_named(name: str) -> Chip | None:
    """Return the chip with exactly this name in the data."""
    return next((chip for chip in chips() if chip.name == name), None)
