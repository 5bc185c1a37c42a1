"""Versions, devices and memory of this process. Nothing here starts a backend."""

from __future__ import annotations

import platform
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

_PLUGINS = (
    "jax-cuda12-plugin",
    "jax-cuda12-pjrt",
    "jax-cuda13-plugin",
    "jax-cuda13-pjrt",
    "jax-rocm60-plugin",
    "jax-rocm60-pjrt",
    "jax-rocm7-plugin",
    "jax-rocm7-pjrt",
    "jax-metal",
    "libtpu",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-cuda-cupti-cu12",
    "nvidia-cuda-cupti",
)
"""Packages that programs or collectives depend on, queried by name since listing all is slow."""


def versions(jax: ModuleType) -> dict[str, Any]:
    """Return the versions of Python, JAX and jaxlib."""
    jaxlib = sys.modules.get("jaxlib")
    return {
        "python": platform.python_version(),
        "jax": str(getattr(jax, "__version__", "")) or None,
        "jaxlib": str(getattr(jaxlib, "__version__", "")) or None,
    }


def plugins() -> dict[str, str]:
    """Return versions of the packages that are installed beside jaxlib."""
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str] = {}
    for name in _PLUGINS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def backend_is_up() -> bool:
    """Return whether the program has a backend: a compile for absent devices needs none.

    This is the only use of JAX's internals, and only so as not to start a backend: the public way
    to find out starts one. If it is unavailable, a compile is taken as a sign of a backend.
    """
    bridge = sys.modules.get("jax._src.xla_bridge")
    ask = getattr(bridge, "backends_are_initialized", None)
    return True if ask is None else bool(ask())


def devices(jax: ModuleType) -> dict[str, Any]:
    """Return this process's devices and its index among the processes."""
    own = jax.local_devices()
    return {
        "platform": jax.default_backend(),
        "devices": [device.device_kind for device in own],
        "device_ids": [device.id for device in own],
        "process_index": jax.process_index(),
        "process_count": jax.process_count(),
    }


def peak_memory(jax: ModuleType | None) -> dict[str, int]:
    """Return peak bytes in use: `host`, and `device <id>` if the device counts them."""
    import resource

    peak = {"host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}  # Linux: KiB
    return peak | _of_devices(jax, "peak_bytes_in_use")


def memory_limit(jax: ModuleType | None) -> dict[str, int]:
    """Return the limit of each device's allocator in bytes, if it has one."""
    return _of_devices(jax, "bytes_limit")


def _of_devices(jax: ModuleType | None, figure: str) -> dict[str, int]:
    """Return one statistic of each device's allocator, as `device <id>`."""
    found: dict[str, int] = {}
    for device in jax.local_devices() if jax is not None else ():
        stats: dict[str, int] = {}
        with suppress(Exception):  # not every backend has statistics, and some raise instead
            stats = device.memory_stats() or {}
        if figure in stats:
            found[f"device {device.id}"] = stats[figure]
    return found
