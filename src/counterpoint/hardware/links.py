"""Links: the connections between the devices of a Target."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Two levels: a domain in which every device reaches every other at full speed, and a network.

    Without NVLink or similar, a host is a domain, joined by its PCIe. Bytes per second of one
    device in one direction, as the vendor states them.
    """

    domain: int  # devices joined by NVLink or similar; without it, a host's devices
    domain_bytes_per_s: float  # 0 without such links: then the host's PCIe is used
    generation: str  # "NVLink 4", "Infinity Fabric", "PCIe 5"
    host_bytes_per_s: float  # between a device and its host: PCIe, or NVLink-C2C
    nic_bytes_per_s: float  # of the network, for each device
    nics_per_host: int
    # If a host has fewer devices than its domain (GB200 NVL72: 4 of 72), domains span hosts.
    source: str
    network_source: str  # "as given", or the rule of thumb used instead
    network_is_given: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The links of one kind of GPU, independent of the number of devices."""

    gpus: tuple[str, ...]
    generation: str
    domain: int
    domain_bytes_per_s: float
    pcie_bytes_per_s: float
    nic_gbps: float
    source: str
    nic_source: str
    host: int  # usual GPUs per host
    most: int  # maximum of the largest machine sold as a unit: more are several hosts
    host_source: str
    spans_hosts: bool = False  # a rack's switch joins hosts to one domain

    @property
    def joins(self) -> bool:
        """True if GPUs are joined by anything but PCIe."""
        return self.domain > 1 and self.domain_bytes_per_s > 0


@cache
def wirings() -> tuple[Wiring, ...]:
    """Return the links of all known kinds."""
    text = resources.files("counterpoint.hardware").joinpath("links.toml").read_text("utf-8")
    entries: list[dict[str, Any]] = tomllib.loads(text)["links"]
    return tuple(_wiring(**entry) for entry in entries)


def _wiring(gpus: list[str], **fields: Any) -> Wiring:  # noqa: ANN401  a part of the file
    return Wiring(gpus=tuple(gpus), **fields)


@cache
def find_wiring(gpu: str) -> Wiring | None:
    """Return the links of the GPU of that name."""
    return next((wiring for wiring in wirings() if gpu in wiring.gpus), None)


# Used for a GPU of which only a compiler's description is known: the slowest host bus in use, to
# avoid optimistic predictions.
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
