"""A Target: which GPUs, how many on a host, how many hosts, and how fast a GPU's network is.

`8xH100` is one host; `64x8xH100` is 64 hosts of 8; `64x8xH100:400G` says what each GPU's NIC does.
A Target can be compiled for. Commands that compile nothing take Devices: any chip that is known by
name, AMD's and TPUs too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.hardware.chip import chips, find_chip
from counterpoint.hardware.gpu import Gpu, find_gpu, gpus, target_config

_SPELLING: Final = re.compile(
    r"(?:(?P<hosts>\d+)x)?(?P<count>\d+)x(?P<gpu>[A-Za-z][\w .-]*?)(?::(?P<nic>\d+(?:\.\d+)?)G)?",
    re.IGNORECASE,
)
_MOST_DEVICES: Final = 1 << 20
_EXAMPLE: Final = "--target 8xH100, or 4x8xH100 for four hosts of eight"
_UNMEASURED: Final = (
    (r"TPU[ -]?(v\d+[a-z]*|v5 lite)", "TPU {}"),
    (r"MI[ -]?(\d{2,3}[A-Z]?)", "MI{}"),
    (r"RTX[ -]?((?:PRO ?|A)?\d{0,4})", "RTX {}"),
    (r"(GH200|H20|H800|A800|A10G?|A16|A30|A40|L4|L40|T4|P4|P40|P100|V100S?)", "{}"),
)
"""Chips whose peak rates are not looked at here, as their makers write them."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """What runs the program: how many of which chip."""

    chip: str
    per_host: int
    hosts: int = 1

    @property
    def count(self) -> int:
        return self.hosts * self.per_host


def parse_devices(text: str) -> Devices:
    """The Devices that a user writes like a Target, of any chip that is known by name."""
    found = _spelt(text)
    chip = _chip(found["gpu"])
    if chip is None:
        known = [*(gpu.name for gpu in gpus()), *(it.name for it in chips())]
        raise UsageError(
            f"--target {text}: no chip is known as {found['gpu']}",
            why="known are "
            + ", ".join(dict.fromkeys(known))
            + ", and more by their makers' names",
            next=_EXAMPLE,
        )
    hosts, count = _counts(found, text)
    return Devices(chip=chip, per_host=count, hosts=hosts)


def _chip(name: str) -> str | None:
    """A chip by the name that its maker gives it."""
    gpu = find_gpu(name)
    if gpu is not None:
        return gpu.name
    for pattern, spelt in _UNMEASURED:
        match = re.fullmatch(pattern, name.strip(), re.IGNORECASE)
        if match is not None:
            said = next(filter(None, match.groups()), "")
            said = said.lower() if spelt.startswith("TPU") else said.upper()
            return spelt.format(said).strip()
    chip = find_chip(name)
    return chip.name if chip is not None else None


def _spelt(text: str) -> re.Match[str]:
    found = _SPELLING.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"--target {text}: not understood",
            why="a target is GPUS x CHIP or HOSTS x GPUS x CHIP",
            next=_EXAMPLE,
        )
    return found


def _counts(found: re.Match[str], text: str) -> tuple[int, int]:
    """Hosts, and devices on each."""
    hosts, count = int(found["hosts"] or 1), int(found["count"])
    if not 0 < hosts * count <= _MOST_DEVICES:
        raise UsageError(f"--target {text}: {hosts * count} devices", next=_EXAMPLE)
    return hosts, count


def parse_target(text: str) -> Target:
    """The Target that a user writes as `8xH100` or `64x8xH100:400G`."""
    found = _spelt(text)
    gpu = find_gpu(found["gpu"])
    if gpu is None:
        raise UsageError(
            f"--target {text}: XLA's CUDA compiler can't be told to compile for {found['gpu']}",
            why="known are " + ", ".join(gpu.name for gpu in gpus()),
            next=_EXAMPLE,
        )
    hosts, count = _counts(found, text)
    return Target(
        gpu=gpu.name,
        gpus_per_host=count,
        hosts=hosts,
        nic_gbps=float(found["nic"]) if found["nic"] else None,
        config=target_config(gpu),
    )
