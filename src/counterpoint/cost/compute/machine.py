"""The device that a kernel runs on: the properties of a Target that decide the price of compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from counterpoint.cost.compute.kernels import DeviceShape, kernels_of
from counterpoint.hlo.model.instruction import element_bits

if TYPE_CHECKING:
    from counterpoint.cost.compute.kernels import GemmKernels, Kernels
    from counterpoint.cost.scalars import Scalars
    from counterpoint.hardware.chip import Chip
    from counterpoint.hardware.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeDevice:
    """One device, as a kernel sees it.

    Rates are the data sheet's; scalars give the reached shares.
    """

    chip: str
    vendor: str
    kernels: Kernels
    measured_on: Chip  # the chip whose kernels they are
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
        kinds = self.kernels.gemm
        return kinds.get("f32" if dtype == "tf32" else dtype, kinds["bf16"])


_WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "f4": ("f4", "f8", "bf16"),
    "f8": ("f8", "bf16"),
    "s8": ("s8", "f8", "bf16"),
    "f16": ("f16", "bf16"),
    "tf32": ("tf32", "f32"),
}
_HOST_SHARE: Final = 0.83
"""Share of PCIe's or NVLink-C2C's rate that copies to pinned memory reach."""


def rate_type(dtype: str) -> str:
    """Return the type under which a chip's rates list products of arrays of this type."""
    if dtype == "f32":
        return "tf32"
    if dtype in ("bf16", "f16", "f64"):
        return dtype
    if element_bits(dtype) <= 8:
        return "f8" if dtype.startswith("f") else "s8"
    return "f32"


def machine_of(target: Target, scalars: Scalars) -> ComputeDevice:
    """Return the ComputeDevice of a Target."""
    chip, gpu = target.chip, target.known_gpu
    measured_on, kernels = kernels_of(chip.name)
    shape = kernels.device
    if gpu is not None:
        shape = DeviceShape(gpu.cores, gpu.clock_ghz, gpu.fpus_per_core, gpu.l2_bytes)
    return ComputeDevice(
        chip=chip.name,
        vendor=chip.vendor,
        kernels=kernels,
        measured_on=measured_on,
        flops=chip.flops,
        memory_bytes_per_s=chip.hbm_bytes,
        cores=shape.cores,
        clock_hz=shape.clock_ghz * 1e9,
        lanes=shape.lanes,
        l2_bytes=shape.cache_bytes,
        host_bytes_per_s=target.links.host_bytes_per_s * _HOST_SHARE,
        scalars=scalars,
    )
