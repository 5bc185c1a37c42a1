"""A Target: which GPUs, how many on a host, how many hosts, and how fast a GPU's network is.

`8xH100` is one host; `64x8xH100` is 64 hosts of 8; `64x8xH100:400G` says what each GPU's NIC does,
`64x8xH100:4x200G` how many NICs a host has. A file's path ending in `.toml` describes another.
A Target can be compiled for. Commands that compile nothing take Devices: any chip that is known by
name, AMD's and TPUs too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.hardware.chip import Chip, chip_named, chips, find_chip
from counterpoint.hardware.gpu import Gpu, find_gpu, gpus, target_config
from counterpoint.hardware.links import UNKNOWN_WIRING, Links, Wiring, find_wiring

_SPELLING: Final = re.compile(
    r"(?:(?P<hosts>\d+)x)?(?P<count>\d+)x(?P<gpu>[A-Za-z][\w .-]*?)"
    r"(?::(?:(?P<nics>\d+)x)?(?P<nic>\d+(?:\.\d+)?)G(?:b|bps|b/s|bit)?)?",
    re.IGNORECASE,
)
_MEMORY: Final = re.compile(r"device_memory_size: (\d+)")
_BYTES_PER_GBIT: Final = 1e9 / 8
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
    nic_gbps: float | None = None  # per GPU, in one direction; None where nobody said
    nics_per_host: int | None = None
    config: str
    # What a user's file says instead of what is known of the GPU.
    own_chip: Chip | None = field(default=None, hash=False)
    own_wiring: Wiring | None = None
    origin: str = ""  # the file, where one describes it

    @property
    def devices(self) -> int:
        return self.hosts * self.gpus_per_host

    @property
    def known_gpu(self) -> Gpu | None:
        """What is known of the GPU; nothing of one that only a configuration file describes."""
        return find_gpu(self.gpu)

    @property
    def chip(self) -> Chip:
        """What its GPU reaches at most; UsageError where nothing is known of it."""
        gpu = self.known_gpu
        chip = self.own_chip or (chip_named(gpu.chip) if gpu else find_chip(self.gpu))
        if chip is None:
            raise UsageError(
                f"nothing is known of the rates of {self.gpu}",
                why="known are " + ", ".join(chip.name for chip in chips()),
                next="describe it in a file: docs/reference/target-files.md",
            )
        return chip

    @property
    def memory_bytes(self) -> int:
        """Of one device, as the compiler is told."""
        told = _MEMORY.search(self.config)
        return int(told[1]) if told else round(self.chip.memory_bytes)

    @property
    def wiring(self) -> Wiring:
        """The links of its kind of GPU, or what a user's file says instead."""
        return self.own_wiring or find_wiring(self.gpu) or UNKNOWN_WIRING

    @property
    def links(self) -> Links:
        """How its devices reach each other."""
        wiring = self.wiring
        asked = self.nic_gbps is not None
        gbps = self.nic_gbps if self.nic_gbps is not None else wiring.nic_gbps
        return Links(
            domain=self._domain(wiring),
            domain_bytes_per_s=wiring.domain_bytes_per_s if wiring.joins else 0.0,
            generation=wiring.generation,
            host_bytes_per_s=wiring.pcie_bytes_per_s,
            nic_bytes_per_s=gbps * _BYTES_PER_GBIT,
            nics_per_host=self.nics_per_host or self.gpus_per_host,
            source=wiring.source,
            network_source="asked for" if asked else f"rule of thumb: {wiring.nic_source}",
        )

    def _domain(self, wiring: Wiring) -> int:
        """Devices of one domain: a host's, a part of them, or those of several whole hosts."""
        most = wiring.domain if wiring.joins else self.gpus_per_host
        if most <= self.gpus_per_host:
            return most
        if not wiring.spans_hosts:
            return self.gpus_per_host
        return min(self.devices, most // self.gpus_per_host * self.gpus_per_host)

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever reads a prediction for it must know."""
        gpu = self.known_gpu
        notes = [f"{self.gpu}: {gpu.stands_in}"] if gpu and gpu.stands_in else []
        links = self.links
        if self.devices > max(links.domain, self.gpus_per_host) and self.nic_gbps is None:
            gbps = links.nic_bytes_per_s / _BYTES_PER_GBIT
            notes.append(
                f"no network was named: {gbps:g} Gb/s per GPU, a {links.network_source}; "
                f"name yours as in {self}:{gbps:g}G"
            )
        return tuple(notes)

    def __str__(self) -> str:
        if self.origin:
            return self.origin
        hosts = f"{self.hosts}x" if self.hosts > 1 else ""
        return f"{hosts}{self.gpus_per_host}x{self.gpu}{self._network()}"

    def _network(self) -> str:
        if self.nic_gbps is None:
            return ""
        if self.nics_per_host is None:
            return f":{self.nic_gbps:g}G"
        one = self.nic_gbps * self.gpus_per_host / self.nics_per_host
        return f":{self.nics_per_host}x{one:g}G"


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
    """The Target that a user writes as `8xH100`, `64x8xH100:8x400G` or a file's path."""
    if text.strip().casefold().endswith(".toml"):
        from counterpoint.hardware.target_file import read_target

        return read_target(text.strip())
    found = _spelt(text)
    gpu = find_gpu(found["gpu"])
    if gpu is None:
        raise UsageError(
            f"--target {text}: XLA's CUDA compiler can't be told to compile for {found['gpu']}",
            why="known are " + ", ".join(gpu.name for gpu in gpus()),
            next=f"{_EXAMPLE}; others in a file: docs/reference/target-files.md",
        )
    hosts, count = _counts(found, text)
    nic, nics = _network(found, text, count)
    return Target(
        gpu=gpu.name,
        gpus_per_host=count,
        hosts=hosts,
        nic_gbps=nic,
        nics_per_host=nics,
        config=target_config(gpu),
    )


def _network(
    found: re.Match[str], text: str, gpus_per_host: int
) -> tuple[float | None, int | None]:
    """Gb/s per GPU, and NICs per host, of what was said."""
    if found["nic"] is None:
        return None, None
    gbps, nics = float(found["nic"]), int(found["nics"]) if found["nics"] else None
    if gbps == 0 or nics == 0:
        raise UsageError(
            f"--target {text}: a network of 0 Gb/s",
            next="leave it away, or say :400G as in 4x8xH100:400G",
        )
    return (gbps if nics is None else gbps * nics / gpus_per_host), nics
