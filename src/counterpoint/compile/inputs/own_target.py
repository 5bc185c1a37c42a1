"""The Target that a program was compiled for, as XLA described the device in its dump."""

from __future__ import annotations

import re
from typing import Final

from counterpoint.compile.inputs.workload import Workload
from counterpoint.core.errors import UsageError
from counterpoint.hardware.gpu import find_described
from counterpoint.hardware.target import Target

_NAME: Final = re.compile(r'device_description_str: "([^"]*)"')
_PLATFORM: Final = re.compile(r'platform_name: "([^"]*)"')
_HOST: Final = 8
"""GPUs that a host of many has, as a rule: a program does not tell."""


def own_target(workload: Workload) -> Target | None:
    """The Target of the run that dumped the program; None where it left no description of it."""
    if workload.config is None:
        return None
    platform = _PLATFORM.search(workload.config)
    if platform and platform[1].upper() != "CUDA":
        raise UsageError(
            f"{workload.origin} was compiled for {platform[1]}, and XLA's CUDA compiler is here",
            next="name a target: --target 8xH100",
        )
    name = _NAME.search(workload.config)
    described = name[1] if name else "GPU"
    gpu = find_described(described)
    devices = workload.devices
    hosts = devices // _HOST if devices > _HOST and devices % _HOST == 0 else 1
    return Target(
        gpu=gpu.name if gpu else described,
        gpus_per_host=devices // hosts,
        hosts=hosts,
        config=workload.config,
    )
