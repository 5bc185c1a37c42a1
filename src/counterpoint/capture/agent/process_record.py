"""The agent's files: RANK/agent/process-<pid>.json, and lines of steps and compiles.

Lines are kept in memory and written by the caller of `flush`, at most a second later: a step costs
an append. The process file is replaced whole, so a reader never sees half of it. No fsync: the
kernel keeps what a killed process wrote, and after a killed machine nobody reads it.

The facts are versions, devices and memory of this process. None of them starts a backend.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from .steps import StepKind, step_as_json

_FAILURES = 20  # maximum number recorded; repeats of the same one add nothing


class AgentLog:
    """Writes for one process."""

    def __init__(self, directory: str, pid: int) -> None:
        self.rank = Path(directory)
        self.directory = self.rank / "agent"
        self.failures: list[str] = []
        self._pid = pid
        self._steps: list[Any] = []  # flat, as in DeferredSteps
        self._compiles: list[dict[str, Any]] = []
        self._lock = threading.RLock()  # a signal handler may run while it is held

    def open(self) -> None:
        """Create the output directory."""
        self.directory.mkdir(parents=True, exist_ok=True)

    def step(self, kind: StepKind, step: int | None, start_s: float, wall_s: float) -> None:
        """Record the start of a step."""
        self._steps += (kind, step, start_s, wall_s)

    def compiled(self, about: dict[str, Any]) -> None:
        """Record a compile."""
        self._compiles.append(about)

    def failed(self, what: str) -> None:
        """Record a failure of the agent itself."""
        if len(self.failures) < _FAILURES:
            self.failures.append(what)

    def flush(self) -> None:
        """Write the lines recorded so far."""
        with self._lock:
            steps, compiles = (
                len(self._steps),
                len(self._compiles),
            )  # more may be added
            parts = [self._steps[part:steps:4] for part in range(4)]
            compiled = self._compiles[:compiles]
            del self._steps[:steps]  # even if they can't be written: a disk may stay full
            del self._compiles[:compiles]
            self._append("compiles", list(map(json.dumps, compiled)))
            self._append("steps", list(map(step_as_json, *parts)))

    def _append(self, kind: str, lines: list[str]) -> None:
        if not lines:
            return
        with (self.directory / f"{kind}-{self._pid}.jsonl").open("a", encoding="utf-8") as file:
            file.write("\n".join((*lines, "")))

    def write(self, facts: dict[str, Any]) -> None:
        """Replace the process file."""
        target = self.directory / f"process-{self._pid}.json"
        fresh = target.with_suffix(".json.new")
        with self._lock:
            fresh.write_text(json.dumps(facts, indent=1, default=str) + "\n", encoding="utf-8")
            os.replace(fresh, target)  # noqa: PTH105  pathlib's says the same


_PLUGINS = (
    "jax-cuda12-plugin jax-cuda12-pjrt jax-cuda13-plugin jax-cuda13-pjrt jax-rocm60-plugin"
    " jax-rocm60-pjrt jax-rocm7-plugin jax-rocm7-pjrt jax-metal libtpu nvidia-nccl-cu12"
    " nvidia-nccl-cu13 nvidia-cudnn-cu12 nvidia-cudnn-cu13 nvidia-cuda-cupti-cu12"
    " nvidia-cuda-cupti"
)
"""Packages that programs or collectives depend on, queried by name since listing all is slow."""


def jax_versions(jax: ModuleType) -> dict[str, Any]:
    """Return the versions of Python, JAX and jaxlib."""
    jaxlib = sys.modules.get("jaxlib")
    return {
        "python": platform.python_version(),
        "jax": str(getattr(jax, "__version__", "")) or None,
        "jaxlib": str(getattr(jaxlib, "__version__", "")) or None,
    }


def plugin_versions() -> dict[str, str]:
    """Return versions of the packages that are installed with jaxlib."""
    from importlib.metadata import PackageNotFoundError, version

    versions: dict[str, str] = {}
    for name in _PLUGINS.split():
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def backend_is_up() -> bool:
    """Return whether the program has a backend: a compile for absent devices needs none.

    This is the only use of JAX's internals, and only so as not to start a backend: the public way
    to find out starts one. If it is unavailable, a compile is taken as a sign of a backend.
    """
    bridge = sys.modules.get("jax._src.xla_bridge")
    ask = getattr(bridge, "backends_are_initialized", None)
    return True if ask is None else bool(ask())


def device_facts(jax: ModuleType) -> dict[str, Any]:
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
    by_device: dict[str, int] = {}
    for device in jax.local_devices() if jax is not None else ():
        stats: dict[str, int] = {}
        with suppress(Exception):  # not every backend has statistics, and some raise instead
            stats = device.memory_stats() or {}
        if figure in stats:
            by_device[f"device {device.id}"] = stats[figure]
    return by_device
