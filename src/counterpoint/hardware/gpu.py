"""A GPU as XLA's compiler needs it, for a compile without the device: section [gpu] of its chip.

The peak rates by which a measurement is judged are those of its chip (chip.py).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Gpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What XLA:GPU's compiler asks about a device: bytes, bytes per second, GHz.

    Facts restated from the target configurations that XLA ships (openxla/xla,
    xla/backends/gpu/target_config/specs, 2026-11, Apache-2.0).
    """

    name: str  # in targets
    aliases: tuple[str, ...] = ()
    description: str  # the driver's name for it
    compute_capability: str
    accelerated: bool  # XLA compiles for sm_90a, for example, instead of sm_90
    cores: int
    fpus_per_core: int
    clock_ghz: float
    memory_bytes: int
    memory_bytes_per_s: int
    l2_bytes: int
    shared_memory_per_core: int
    shared_memory_optin: int
    matrix_clock_ghz: float
    # Multiply-adds per clock of one of the four matrix units of a core, by the width of the type:
    # without them XLA's own estimate of a GEMM is ten times off.
    matrix_ops: Mapping[str, int]
    half_ops: int  # per clock of a scalar unit, 0 if XLA ships no figures
    active_links: int
    source: str
    threads_per_core: int = 2048
    # Why the description is not the device's own: XLA's CUDA compiler doesn't compile for it.
    stands_in: str = ""
