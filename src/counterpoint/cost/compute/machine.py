"""The device that a kernel runs on: the properties of a Target that decide the price of compute."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from counterpoint.hardware.gpu import architecture_of
from counterpoint.hlo.model.instruction import element_bits

if TYPE_CHECKING:
    from counterpoint.cost.scalars import Scalars
    from counterpoint.hardware.target import Target


@dataclass(frozen=True, slots=True)
class GemmKernels:
    """Rates that an architecture's GEMM kernels reach; kernels.toml describes each field."""

    share: float
    start_us: float
    wave_us: float
    half: float
    quarter: float
    memory: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeDevice:
    """One device, as a kernel sees it.

    Rates are the data sheet's; scalars give the reached shares.
    """

    chip: str
    # "ampere", "ada", "hopper", "blackwell", "cdna3": the kernels that run on it.
    architecture: str
    flops: Mapping[str, float]  # dense FLOP/s by element type
    memory_bytes_per_s: float
    cores: int
    clock_hz: float
    lanes: int  # scalar operations of a core per clock
    l2_bytes: int
    host_bytes_per_s: float  # between device and host, one direction
    scalars: Scalars

    @property
    def memory_rate(self) -> float:
        """Bytes per second that a long, well-behaved kernel reaches."""
        return self.memory_bytes_per_s * self.scalars.memory.value

    def peak(self, dtype: str) -> float:
        """Return dense FLOP/s for operands of that type.

        A type that the chip lacks runs as a wider one.
        """
        known = next(
            (wider for wider in _WIDER.get(dtype, (dtype,)) if wider in self.flops), "bf16"
        )
        return self.flops[known]

    def gemm(self, dtype: str) -> GemmKernels:
        """Return the rates of its GEMM kernels for operands of that type."""
        kinds: dict[str, dict[str, float]] = kernels()[self.architecture]["gemm"]
        return GemmKernels(**kinds.get("f32" if dtype == "tf32" else dtype, kinds["bf16"]))

    def attention(self, which: str) -> float:
        """Return attention's share of the bf16 rate, forward or backward; for f8, the speedup."""
        shares: dict[str, float] = kernels()[self.architecture]["attention"]
        return shares[which]


_WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "f4": ("f4", "f8", "bf16"),
    "f8": ("f8", "bf16"),
    "s8": ("s8", "f8", "bf16"),
    "f16": ("f16", "bf16"),
    "tf32": ("tf32", "f32"),
}
_HOST_SHARE: Final = 0.83
"""Share of PCIe's or NVLink-C2C's rate that copies to pinned memory reach."""
_BUILT: Final = {"cdna3": (304, 2.1e9, 128, 256 << 20), "ada": (142, 2.5e9, 128, 96 << 20)}
"""Cores, clock, lanes and last-level cache without a compiler description (MI300X, L40S)."""


def rate_type(dtype: str) -> str:
    """Return the type under which a chip's rates list products of arrays of this type."""
    if dtype == "f32":
        return "tf32"
    if dtype in ("bf16", "f16", "f64"):
        return dtype
    if element_bits(dtype) <= 8:
        return "f8" if dtype.startswith("f") else "s8"
    return "f32"


@cache
def kernels() -> dict[str, dict[str, Any]]:
    """Read kernels.toml."""
    file = resources.files("counterpoint.cost.compute").joinpath("kernels.toml")
    return tomllib.loads(file.read_text("utf-8"))


def machine_of(target: Target, scalars: Scalars) -> ComputeDevice:
    """Return the ComputeDevice of a Target."""
    chip, gpu = target.chip, target.known_gpu
    architecture = architecture_of(chip.name)
    cores, clock, lanes, cache_bytes = _BUILT.get(architecture, (132, 1.8e9, 128, 50 << 20))
    if gpu is not None:
        cores, clock, lanes = gpu.cores, gpu.clock_ghz * 1e9, gpu.fpus_per_core
        cache_bytes = gpu.l2_bytes
    return ComputeDevice(
        chip=chip.name,
        architecture=architecture,
        flops=chip.flops,
        memory_bytes_per_s=chip.hbm_bytes,
        cores=cores,
        clock_hz=clock,
        lanes=lanes,
        l2_bytes=cache_bytes,
        host_bytes_per_s=target.links.host_bytes_per_s * _HOST_SHARE,
        scalars=scalars,
    )
