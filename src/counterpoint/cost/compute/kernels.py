"""Kernels: how well they use a chip, from the section [kernels] of its file.

Shares are of the data sheet's dense rate. A chip without figures of its own has those of another,
which its file names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from counterpoint.hardware.chip import Chip, kernel_chip


class GemmKernels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rates that GEMM kernels of one type reach."""

    share: float  # of a core's matrix rate that a full tile reaches
    start_us: float  # before and after any work
    wave_us: float  # for each wave of tiles: filling and draining a pipeline
    half: float  # what tiles of half of the largest reach of a full one's rate
    quarter: float  # the same of a quarter
    memory: float  # share of the memory rate


class AttentionKernels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shares of the bf16 rate of a long sequence without mask and heads of 128.

    How sequence, head and mask change them is attention.toml.
    """

    forward: float
    backward: float
    f8: float  # the speedup of 8-bit floats


class SwapKernels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Updates of a scatter that are compared and swapped."""

    met_per_s: float = 0.07e9  # updates that meet by chance
    wait_s: float = 12.7e-9  # by which each waiting thread delays one
    least_per_s: float = 0.01e9  # the fewest updates that were measured


class DeviceShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a chip with these kernels that has no section [gpu]."""

    cores: int = 132
    clock_ghz: float = 1.8
    lanes: int = 128  # scalar operations of a core per clock
    cache_bytes: int = 50 << 20  # of the last level


class Kernels(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How well kernels use a chip."""

    # By type; types that are left out work like bf16.
    gemm: Mapping[str, GemmKernels]
    # Measured GEMMs, to which the formula is corrected: a file beside the chip's.
    gemm_table: str = ""
    attention: AttentionKernels
    added_in_hardware: frozenset[str] = frozenset()  # types that the cache adds to in place
    swaps: SwapKernels = SwapKernels()
    device: DeviceShape = DeviceShape()


@cache
def kernels_of(name: str) -> tuple[Chip, Kernels]:
    """Return the kernels of the chip with this name, and the chip that they were measured on."""
    chip = kernel_chip(name)
    try:
        return chip, msgspec.convert(chip.kernels, Kernels)
    except msgspec.ValidationError as error:
        raise ValueError(f"hardware/chips: {chip.name}, [kernels]: {error}") from error
