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
"""Packages that programs or collectives depend on: asked by name, as listing all takes long."""


def versions(jax: ModuleType) -> dict[str, Any]:
    """Of Python, JAX and what JAX runs on."""
    jaxlib = sys.modules.get("jaxlib")
    return {
        "python": platform.python_version(),
        "jax": str(getattr(jax, "__version__", "")) or None,
        "jaxlib": str(getattr(jaxlib, "__version__", "")) or None,
    }


def plugins() -> dict[str, str]:
    """Versions of the packages that are installed beside jaxlib."""
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str] = {}
    for name in _PLUGINS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def backend_is_up() -> bool:
    """Whether the program has a backend: a compile for absent devices needs none.

    The one thing that is asked of JAX's insides, and only so as not to start a backend: to learn it
    in public is to start one. Where it can't be asked, a compile is taken for a sign.
    """
    bridge = sys.modules.get("jax._src.xla_bridge")
    ask = getattr(bridge, "backends_are_initialized", None)
    return True if ask is None else bool(ask())


def devices(jax: ModuleType) -> dict[str, Any]:
    """This process's devices and its place among the processes."""
    own = jax.local_devices()
    return {
        "platform": jax.default_backend(),
        "devices": [device.device_kind for device in own],
        "device_ids": [device.id for device in own],
        "process_index": jax.process_index(),
        "process_count": jax.process_count(),
    }


def peak_memory(jax: ModuleType | None) -> dict[str, int]:
    """The most bytes ever in use: `host`, and `device <id>` where the device keeps count."""
    import resource

    peak = {"host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}  # Linux: KiB
    return peak | _of_devices(jax, "peak_bytes_in_use")


def memory_limit(jax: ModuleType | None) -> dict[str, int]:
    """The most bytes that each device's allocator may hand out, where it has a limit."""
    return _of_devices(jax, "bytes_limit")


def _of_devices(jax: ModuleType | None, figure: str) -> dict[str, int]:
    """One figure of each device's allocator, as `device <id>`."""
    found: dict[str, int] = {}
    for device in jax.local_devices() if jax is not None else ():
        stats: dict[str, int] = {}
        with suppress(Exception):  # not every backend keeps count, and some say so by raising
            stats = device.memory_stats() or {}
        if figure in stats:
            found[f"device {device.id}"] = stats[figure]
    return found
