"""Links: the connections between the devices of a Target."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


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


class Wiring(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The links of one kind of GPU, independent of the number of devices: section [links].

    Bits and bytes per second of one GPU in one direction.
    """

    generation: str
    # GPUs that reach each other at domain_bytes_per_s, as the maker sells them; 1 where only PCIe
    # joins them.
    domain: int
    domain_bytes_per_s: float
    # The rate of an all-reduce that switches add up (NVLink SHARP) over a ring's, on 8 GPUs: 480
    # and 367 GB/s on H200s, 735 and 700 on B200s. 0 where there are no such switches.
    nvls: float = 0.0
    pcie_bytes_per_s: float  # to the host, and between GPUs without a domain
    # The network of one GPU where the user names none. A rule of thumb: what the maker's own
    # systems have, and clouds mostly too.
    nic_gbps: float
    source: str
    nic_source: str
    host: int  # usual GPUs per host
    # Of the largest machine sold as one (a rack counts, where its switch spans hosts): a target
    # with more of them on one host is refused.
    most: int
    host_source: str
    spans_hosts: bool = False  # a rack's switch joins hosts to one domain

    @property
    def joins(self) -> bool:
        """True if GPUs are joined by anything but PCIe."""
        return self.domain > 1 and self.domain_bytes_per_s > 0


# Used for a GPU of which only a compiler's description is known: the slowest host bus in use, to
# avoid optimistic predictions.
UNKNOWN_WIRING = Wiring(
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
