"""The memory that JAX's allocator would take on the device, with which the compiler plans."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from counterpoint.core import UsageError

DEFAULT_FRACTION: Final = 0.75
MEMORY_VARIABLES: Final = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
_ALLOCATOR: Final = "XLA_PYTHON_CLIENT_ALLOCATOR"
_WITHOUT_LIMIT: Final = "platform"
_SIZE: Final = re.compile(r"device_memory_size: (\d+)")


def memory_fraction(environment: Mapping[str, str]) -> float:
    """Return the share of the device's memory that JAX's allocator takes with these variables.

    The variables and their meaning are those of `generate_pjrt_gpu_plugin_options` in jaxlib's
    xla_client; the default, 0.75, is that of XLA's `GpuAllocatorConfig`.
    """
    for name in MEMORY_VARIABLES:
        setting = environment.get(name, "").strip()
        if not setting:
            continue
        try:
            fraction = float(setting)
        except ValueError:
            fraction = 0.0
        if not 0.0 < fraction <= 1.0:
            raise UsageError(
                f"{name}={setting}: not a valid fraction of the device's memory",
                why="it must be above 0 and at most 1",
                next=f"{name}=0.92",
            )
        return fraction
    return DEFAULT_FRACTION


def planned_bytes(config: str, environment: Mapping[str, str]) -> int | None:
    """Return the bytes that the compiler may plan with; None if a run would have no limit either.

    `config` is XLA's description of the device, as text.

    A client passes its allocator's limit to the compiler (`PyClient::CompileAndLoadIfrtProgram` in
    jaxlib/py_client.cc), and XLA's scheduler, combiners and rematerialization plan with it. Without
    a client XLA assumes 80% of the memory, so tight programs would get a different schedule.
    """
    size = _SIZE.search(config)
    if size is None or environment.get(_ALLOCATOR, "").lower() == _WITHOUT_LIMIT:
        return None
    return int(int(size[1]) * memory_fraction(environment))
