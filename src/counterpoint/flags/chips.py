"""Chips, as far as settings care: the maker, the generation, and what the hardware can do.

A chip is written as hardware names it (`H100`, `NVIDIA A100-SXM4-40GB`, `MI300X`, `TPU v5p`). What
a name does not tell is None: a rule then says nothing.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final


class Family(Enum):
    """Chips that XLA's compiler treats alike."""

    OLDER = "older than Ampere"
    AMPERE = "Ampere"
    ADA = "Ada"
    HOPPER = "Hopper"
    BLACKWELL = "Blackwell"
    AMD = "AMD"
    TPU = "TPU"

    @property
    def is_nvidia(self) -> bool:
        """Whether NCCL and CUDA drive it."""
        return self not in (Family.AMD, Family.TPU)


_NAMES: Final = (
    (r"\bTPU\b", Family.TPU),
    (r"\bMI\d{2,3}", Family.AMD),
    (r"\bG?B\d{3}\b|\bRTX (50|PRO)", Family.BLACKWELL),
    (r"\bG?H\d{2,3}\b", Family.HOPPER),
    (r"\bL4\b|\bL40|\bRTX (4\d|6000 Ada)", Family.ADA),
    (r"\bA\d{2,3}[A-Z]?\b|\bRTX (3\d|A\d)", Family.AMPERE),
    (r"\b[VTPK]\d{1,3}\b", Family.OLDER),
)
_WITHOUT_SWITCH: Final = re.compile(r"PCIe|NVL\b|\bRTX\b|\bGH200\b", re.IGNORECASE)


def family(chip: str | None) -> Family | None:
    """None for a chip that is not named, or not known."""
    return next((kind for pattern, kind in _NAMES if re.search(pattern, chip or "")), None)


def has_nvls(chip: str | None) -> bool | None:
    """Whether NCCL can let NVSwitch do the sums: Hopper and Blackwell behind NVLink switches."""
    kind = family(chip)
    if kind is None:
        return None
    if kind not in (Family.HOPPER, Family.BLACKWELL):
        return False
    return None if _WITHOUT_SWITCH.search(chip or "") else True
