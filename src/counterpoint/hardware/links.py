"""Links: how the devices of a Target reach each other."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Two levels: a domain in which every device reaches every other at full speed, and a network.

    Where nothing like NVLink joins the devices, a host is a domain, and its PCIe carries it. Bytes
    per second of one device in one direction, as the maker states them.
    """

    domain: int  # devices that NVLink (or its like) joins; a host's where there is none
    domain_bytes_per_s: float  # 0 where there is none: then the host's PCIe carries it
    generation: str  # "NVLink 4", "Infinity Fabric", "PCIe 5"
    host_bytes_per_s: float  # between a device and its host: PCIe, or NVLink-C2C
    nic_bytes_per_s: float  # of the network, for each device
    nics_per_host: int
    # Where a host has fewer devices than its domain (GB200 NVL72: 4 of 72), domains span hosts.
    source: str
    network_source: str  # "asked for", or the rule of thumb that stood in


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The links of one kind of GPU before anybody says how many stand where."""

    gpus: tuple[str, ...]
    generation: str
    domain: int
    domain_bytes_per_s: float
    pcie_bytes_per_s: float
    nic_gbps: float
    source: str
    nic_source: str
    host: int  # GPUs of one host, as a rule
    most: int  # of the largest machine that is sold as one: more are several hosts
    host_source: str
    spans_hosts: bool = False  # a rack's switch joins hosts to one domain

    @property
    def joins(self) -> bool:
        """Whether anything but PCIe joins GPUs."""
        return self.domain > 1 and self.domain_bytes_per_s > 0


@cache
def wirings() -> tuple[Wiring, ...]:
    """The links of all kinds that are known."""
    text = resources.files("counterpoint.hardware").joinpath("links.toml").read_text("utf-8")
    entries: list[dict[str, Any]] = tomllib.loads(text)["links"]
    return tuple(_wiring(**entry) for entry in entries)


def _wiring(gpus: list[str], **fields: Any) -> Wiring:  # noqa: ANN401  a part of the file
    return Wiring(gpus=tuple(gpus), **fields)


@cache
def find_wiring(gpu: str) -> Wiring | None:
    """The links of the GPU of that name."""
    return next((wiring for wiring in wirings() if gpu in wiring.gpus), None)


# What stands in for a GPU that only a compiler's description is known of: the slowest host bus in
# use, so that nothing is promised.
UNKNOWN_WIRING = Wiring(
    gpus=(),
    generation="PCIe 4",
    domain=1,
    domain_bytes_per_s=0,
    pcie_bytes_per_s=32e9,
    nic_gbps=100,
    source="unknown GPU: PCIe Gen4 x16 stands in",
    nic_source="unknown GPU: 100 Gb/s stands in",
    host=8,
    most=16,
    host_source="unknown GPU: servers have at most 16",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ici:
    """Links between chips of one kind of TPU."""

    chip: str
    pattern: str  # matches the names that profiles give it
    bytes_per_s: float  # of all links of a chip, in one direction
    devices: int  # of one chip, as JAX counts
    slice: int  # chips of the largest one
    slice_source: str
    source: str

    @property
    def device_bytes_per_s(self) -> float:
        """A device's share, while all of its chip use the links."""
        return self.bytes_per_s / self.devices

    @property
    def slice_devices(self) -> int:
        """Devices of the largest slice."""
        return self.slice * self.devices


@cache
def icis() -> tuple[Ici, ...]:
    """All kinds that are known, in the order in which names are tried."""
    text = resources.files("counterpoint.hardware").joinpath("ici.toml").read_text("utf-8")
    return tuple(Ici(**entry) for entry in tomllib.loads(text)["ici"])


def find_ici(name: str | None) -> Ici | None:
    """The links of the chip that a profile calls by this name; None for other chips."""
    if name is None:
        return None
    return next((ici for ici in icis() if re.search(ici.pattern, name, re.IGNORECASE)), None)
