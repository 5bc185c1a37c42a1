"""A Target: which GPUs, how many on a host, how many hosts, and how fast a GPU's network is.

`8xH100` is one host; `64x8xH100` is 64 hosts of 8; `64x8xH100:400G` says what each GPU's NIC does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.hardware.gpu import Gpu, find_gpu, gpus, target_config

_SPELLING: Final = re.compile(
    r"(?:(?P<hosts>\d+)x)?(?P<count>\d+)x(?P<gpu>[A-Za-z][\w .-]*?)(?::(?P<nic>\d+(?:\.\d+)?)G)?",
    re.IGNORECASE,
)
_MOST_DEVICES: Final = 1 << 20
_EXAMPLE: Final = "--target 8xH100, or 4x8xH100 for four hosts of eight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Devices to compile for. `config` is XLA's GpuTargetConfigProto in text form."""

    gpu: str
    gpus_per_host: int
    hosts: int = 1
    nic_gbps: float | None = None  # per GPU
    config: str

    @property
    def devices(self) -> int:
        return self.hosts * self.gpus_per_host

    @property
    def known_gpu(self) -> Gpu | None:
        """What is known of the GPU; nothing of one that only a configuration file describes."""
        return find_gpu(self.gpu)

    def __str__(self) -> str:
        hosts = f"{self.hosts}x" if self.hosts > 1 else ""
        nic = f":{self.nic_gbps:g}G" if self.nic_gbps is not None else ""
        return f"{hosts}{self.gpus_per_host}x{self.gpu}{nic}"


def parse_target(text: str) -> Target:
    """The Target that a user writes as `8xH100` or `64x8xH100:400G`."""
    found = _SPELLING.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"--target {text}: not understood",
            why="a target is GPUS x CHIP or HOSTS x GPUS x CHIP",
            next=_EXAMPLE,
        )
    gpu = find_gpu(found["gpu"])
    if gpu is None:
        raise UsageError(
            f"--target {text}: XLA's CUDA compiler can't be told to compile for {found['gpu']}",
            why="known are " + ", ".join(gpu.name for gpu in gpus()),
            next=_EXAMPLE,
        )
    hosts, count = int(found["hosts"] or 1), int(found["count"])
    if not 0 < hosts * count <= _MOST_DEVICES:
        raise UsageError(f"--target {text}: {hosts * count} devices", next=_EXAMPLE)
    return Target(
        gpu=gpu.name,
        gpus_per_host=count,
        hosts=hosts,
        nic_gbps=float(found["nic"]) if found["nic"] else None,
        config=target_config(gpu),
    )
