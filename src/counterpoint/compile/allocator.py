"""How much of a device's memory a program may take: what JAX's allocator has at a run.

A client hands its allocator's limit to the compiler (`PyClient::CompileAndLoadIfrtProgram` in
jaxlib/py_client.cc), and XLA's scheduler, combiners and rematerialisation plan with it. Without a
client XLA takes 80 % of the memory, and tight programs get another schedule. The variables and
their meaning are those of jaxlib's `xla_client.generate_pjrt_gpu_plugin_options`; the default,
0.75, is XLA's `GpuAllocatorConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from counterpoint.core.errors import UsageError

DEFAULT_FRACTION: Final = 0.75
VARIABLES: Final = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
_ALLOCATOR: Final = "XLA_PYTHON_CLIENT_ALLOCATOR"
_WITHOUT_LIMIT: Final = "platform"
_SIZE: Final = re.compile(r"device_memory_size: (\d+)")


def memory_fraction(environment: Mapping[str, str]) -> float:
    """The part of the device's memory that JAX's allocator takes with these variables."""
    for name in VARIABLES:
        said = environment.get(name, "").strip()
        if not said:
            continue
        try:
            fraction = float(said)
        except ValueError:
            fraction = 0.0
        if not 0.0 < fraction <= 1.0:
            raise UsageError(
                f"{name}={said}: not a part of the device's memory",
                why="it is a number above 0 and up to 1",
                next=f"{name}=0.92",
            )
        return fraction
    return DEFAULT_FRACTION


def planned_bytes(config: str, environment: Mapping[str, str]) -> int | None:
    """What the compiler may plan with; None where a run would not tell it either.

    `config` is XLA's description of the device in text form.
    """
    size = _SIZE.search(config)
    if size is None or environment.get(_ALLOCATOR, "").lower() == _WITHOUT_LIMIT:
        return None
    return int(int(size[1]) * memory_fraction(environment))
