"""What XLA's compiler is told of a GPU: its GpuTargetConfigProto, in text form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from counterpoint.hardware.gpu import Gpu
from counterpoint.hlo.proto_reader import ELEMENT_TYPES

_NUMBERS: Final = {name: number for number, name in ELEMENT_TYPES.items()}
_CUDA: Final = ("major: 12", "minor: 9")
_WIDTHS: Final[Mapping[str, tuple[str, ...]]] = {
    "bits4": ("f4e2m1fn",),
    "bits8": (
        "s8", "u8", "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e4m3",
        "f8e3m4", "f8e8m0fnu", "f6e3m2fn", "f6e2m3fn",
    ),
    "bits16": ("f16", "bf16"),
    "f32": ("f32",),
    "f64": ("f64",),
}  # fmt: skip

_LIMITS: Final = {
    "threads_per_block_limit": 1024,
    "threads_per_warp": 32,
    "shared_memory_per_block": 49152,
    "block_dim_limit_x": 2147483647,
    "block_dim_limit_y": 65535,
    "block_dim_limit_z": 65535,
    "registers_per_core_limit": 65536,
    "registers_per_block_limit": 65536,
    "thread_dim_limit_x": 1024,
    "thread_dim_limit_y": 1024,
    "thread_dim_limit_z": 64,
}
"""What all of NVIDIA's GPUs have in common."""


def target_config(gpu: Gpu) -> str:
    """Return the GPU as XLA's GpuTargetConfigProto, in text form."""
    major, minor = gpu.compute_capability.split(".")
    capability = [f"major: {major}"] + ([f"minor: {minor}"] if minor != "0" else [])
    if gpu.accelerated:
        capability.append("feature_extension: ACCELERATED_FEATURES")
    info = [
        *(f"{name}: {value}" for name, value in _LIMITS.items()),
        f"shared_memory_per_core: {gpu.shared_memory_per_core}",
        f"shared_memory_per_block_optin: {gpu.shared_memory_optin}",
        f"threads_per_core_limit: {gpu.threads_per_core}",
        f"core_count: {gpu.cores}",
        f"fpus_per_core: {gpu.fpus_per_core}",
        f"memory_bandwidth: {gpu.memory_bytes_per_s}",
        f"l2_cache_size: {gpu.l2_bytes}",
        f"clock_rate_ghz: {gpu.clock_ghz}",
        f"device_memory_size: {gpu.memory_bytes}",
        *_block("cuda_compute_capability", capability),
        *(_block("scalar_unit_description", _scalar(gpu)) if gpu.half_ops else ()),
        *_block("matrix_unit_description", _matrix(gpu)),
        *(_block("device_interconnect_info", [f"active_links: {gpu.active_links}"])),
        'device_vendor: "NVIDIA Corporation"',
        f'name: "{gpu.description}"',
    ]
    lines = [
        *_block("gpu_device_info", info),
        'platform_name: "CUDA"',
        *_block("dnn_version_info", ["major: 9", "minor: 10"]),
        # Without it XLA assumes CUDA 0.0, and multiplies 8-bit floats as 16-bit ones: its
        # GemmRewriter requires 12.0 (xla/service/gpu/transforms/gemm_rewriter.cc).
        *_block("runtime_version", _CUDA),
        f'device_description_str: "{gpu.description}"',
    ]
    return "\n".join(lines) + "\n"


def _matrix(gpu: Gpu) -> Iterator[str]:
    for width, ops in gpu.matrix_ops.items():
        # XLA's own figures use the clock of the scalar units for f64.
        clock = gpu.clock_ghz if width == "f64" else gpu.matrix_clock_ghz
        yield from _rates(_WIDTHS[width], clock, 4, ops)


def _scalar(gpu: Gpu) -> Iterator[str]:
    yield from _rates(("s32", "u32", "f64"), gpu.clock_ghz, 64, 1)
    yield from _rates(("f16", "bf16"), gpu.clock_ghz, 128, gpu.half_ops)
    yield from _rates(("f32",), gpu.clock_ghz, 128, 1)


def _rates(types: Iterable[str], clock: float, units: int, ops: int) -> Iterator[str]:
    for name in types:
        rate = [f"clock_rate_ghz: {clock}", f"units_per_core: {units}", f"ops_per_clock: {ops}"]
        yield from _block("rate_infos", [f"key: {_NUMBERS[name]}", *_block("value", rate)])


def _block(name: str, lines: Iterable[str]) -> list[str]:
    return [f"{name} {{", *(f"  {line}" for line in lines), "}"]
