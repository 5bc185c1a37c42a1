"""MemoryFit: what a program needs on one device, against what JAX's allocator will have there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFit:
    """Bytes on one device, as the compiler plans them, and what there is for them.

    `peak_bytes` is slightly low: workspaces of cuDNN and cuBLASLt are unknown without a device.
    """

    peak_bytes: int | None  # None: not told
    memory_bytes: int | None  # of the chip
    fraction: float  # of it, that JAX's allocator takes
    fraction_source: str  # who said so

    @property
    def available_bytes(self) -> int | None:
        return None if self.memory_bytes is None else int(self.memory_bytes * self.fraction)

    @property
    def fits(self) -> bool | None:
        """None where either side is not known."""
        if self.peak_bytes is None or self.available_bytes is None:
            return None
        return self.peak_bytes <= self.available_bytes
