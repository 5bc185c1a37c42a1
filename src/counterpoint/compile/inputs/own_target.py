"""The Target that a program was compiled for, as XLA described the device in its dump."""

from __future__ import annotations

import re
from typing import Final

from counterpoint.compile.inputs.workload import Workload
from counterpoint.core.errors import UsageError
from counterpoint.hardware.gpu import find_described
from counterpoint.hardware.target import Target
from counterpoint.hardware.target_text import even_hosts

_NAME: Final = re.compile(r'device_description_str: "([^"]*)"')
_PLATFORM: Final = re.compile(r'platform_name: "([^"]*)"')


def own_target(workload: Workload) -> Target | None:
    """The Target of the run that dumped the program; None where it left no description of it."""
    if workload.config is None:
        return None
    platform = _PLATFORM.search(workload.config)
    if platform and platform[1].upper() != "CUDA":
        raise UsageError(
            f"{workload.origin} was compiled for {platform[1]}, and XLA's CUDA compiler is here",
            next="--target 8xH100",
        )
    name = _NAME.search(workload.config)
    described = name[1] if name else "GPU"
    gpu = find_described(described)
    chip = gpu.name if gpu else described
    hosts, per_host = even_hosts(chip, workload.devices)  # a program does not tell
    return Target(
        gpu=chip,
        gpus_per_host=per_host,
        hosts=hosts,
        config=workload.config,
    )
