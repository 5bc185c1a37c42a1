"""What a chip can do at most, by the name a profile gives it.

Peaks are the makers' dense figures for bf16 (no structured sparsity), per device as JAX counts
devices. They are ceilings for comparison (MFU), not what a kernel reaches.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One kind of device."""

    name: str
    pattern: str  # matches the names that profiles give it
    bf16_flops: float  # FLOP/s
    hbm_bytes: float  # bytes/s
    source: str


@cache
def chips() -> tuple[Chip, ...]:
    """All chips known, in the order in which names are tried."""
    text = resources.files("counterpoint.hardware").joinpath("chips.toml").read_text("utf-8")
    return tuple(Chip(**entry) for entry in tomllib.loads(text)["chip"])


def find_chip(name: str | None) -> Chip | None:
    """The chip that a profile calls by this name; None when it names none that is known."""
    if name is None:
        return None
    return next((chip for chip in chips() if re.search(chip.pattern, name, re.IGNORECASE)), None)
