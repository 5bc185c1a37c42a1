"""A GPU as XLA's compiler needs it, for a compile without the device.

`gpus.toml` has its structure, for the compiler. The peak rates by which a measurement is judged are
those of its chip (chip.py).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

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

_BY_NAME: Final = (
    ("H100", "hopper"), ("H200", "hopper"), ("H20", "hopper"), ("H800", "hopper"),
    ("B200", "blackwell"), ("B300", "blackwell"), ("A100", "ampere"), ("A800", "ampere"),
    ("L40", "ada"), ("L4", "ada"), ("PRO 6000", "blackwell"), ("5090", "blackwell"),
    ("RTX", "ada"), ("MI3", "cdna3"), ("MI2", "cdna3"), ("V100", "ampere"), ("A10", "ampere"),
    ("A40", "ampere"), ("A30", "ampere"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One kind of GPU."""

    name: str
    aliases: tuple[str, ...]
    description: str  # the driver's name for it
    chip: str  # its name in chips.toml; empty if it has none there
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
    matrix_ops: Mapping[str, int]
    half_ops: int  # per clock of a scalar unit, 0 if XLA ships no figures
    active_links: int
    source: str
    threads_per_core: int = 2048
    stands_in: str = ""  # why the description is not the device's own


@cache
def gpus() -> tuple[Gpu, ...]:
    """Return all GPUs that can be compiled for."""
    entries: list[dict[str, Any]] = _table()["gpu"]
    return tuple(_gpu(**entry) for entry in entries)


def _gpu(aliases: list[str], **fields: Any) -> Gpu:  # noqa: ANN401  a line of the file
    return Gpu(aliases=tuple(aliases), **fields)


@cache
def find_gpu(name: str) -> Gpu | None:
    """Return the GPU of that name, in any case and spelling: H100, h100-sxm, A100_40GB."""
    wanted = _plain(name)
    return next(
        (gpu for gpu in gpus() if wanted in map(_plain, (gpu.name, *gpu.aliases))),
        None,
    )


def find_described(description: str) -> Gpu | None:
    """Return the GPU with this driver name."""
    return next((gpu for gpu in gpus() if gpu.description == description), None)


def target_config(gpu: Gpu) -> str:
    """Return the GPU as XLA's GpuTargetConfigProto, in text form."""
    major, minor = gpu.compute_capability.split(".")
    capability = [f"major: {major}"] + ([f"minor: {minor}"] if minor != "0" else [])
    if gpu.accelerated:
        capability.append("feature_extension: ACCELERATED_FEATURES")
    info = [
        *_common(),
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


def _common() -> Iterator[str]:
    fields: dict[str, int] = _table()["common"]
    return (f"{name}: {value}" for name, value in fields.items())


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


def _plain(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


@cache
def _table() -> dict[str, Any]:
    text = resources.files("counterpoint.hardware").joinpath("gpus.toml").read_text("utf-8")
    return tomllib.loads(text)


def architecture_of(chip: str) -> str:
    """Return "hopper", "ampere", ... by chip name; unknown chips are treated as Hopper."""
    return next((architecture for name, architecture in _BY_NAME if name in chip.upper()), "hopper")
