"""The attributes that a target's GPUs (or TPUs) have for a program, for the emulator.

The compiler's description of the GPU has it all, for GPUs of a user's target file, too.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from counterpoint.hardware.target import Target
from counterpoint.hardware.tpu import TpuSlice

DeviceFact: TypeAlias = str | int | list[int]

_NUMBER: Final = r"\b{name}: (\d+)"
_KIND: Final = re.compile(r'device_description_str: "([^"]*)"')


def gpu_facts(target: Target) -> dict[str, DeviceFact]:
    """Return the attributes of a device that XLA's GPU client would report on this target."""
    if target.tpu is not None:
        return _tpu_facts(target.tpu)
    config = target.config
    kind = _KIND.search(config)
    return {
        "platform": "gpu",
        "kind": kind[1] if kind else target.gpu,
        "compute_capability": compute_capability(target),
        "core_count": _number(config, "core_count"),
        "shared_memory": _number(config, "shared_memory_per_block_optin"),
        "memory": target.memory_bytes,
        "per_host": target.gpus_per_host,
        # XLA takes a host's boot id, or the fabric's id where NVLink joins several hosts.
        "per_slice": max(target.gpus_per_host, target.links.domain),
    }


def compute_capability(target: Target) -> str:
    """Return the compute capability of a target's GPUs, such as "9.0"."""
    return f"{_number(target.config, 'major')}.{_number(target.config, 'minor')}"


def _tpu_facts(where: TpuSlice) -> dict[str, DeviceFact]:
    """Return what libtpu's client reports of a device of these slices."""
    return {
        "platform": "tpu",
        "kind": where.tpu.kind,
        "shape": [*where.shape, *([1] * (3 - len(where.shape)))],
        "cores": where.tpu.devices,
        "memory": where.tpu.hbm_usable,
        "per_host": where.chips_per_host * where.tpu.devices,
        "per_slice": where.devices,
    }


def _number(config: str, name: str) -> int:
    """Return a number of the description; 0 where it has none, as protobuf reads it."""
    _, _, capability = config.partition("cuda_compute_capability")
    text = capability.partition("}")[0] if name in ("major", "minor") else config
    match = re.search(_NUMBER.format(name=name), text)
    return int(match[1]) if match else 0
