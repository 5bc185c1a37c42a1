"""Links: how the devices of a Target reach each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Two levels: a domain in which every device reaches every other at full speed, and a network.

    Bytes per second of one device in one direction, as the maker states them.
    """

    domain: int  # devices that NVLink (or its like) joins; 1 where there is none
    domain_bytes_per_s: float  # 0 where there is none: then the host's PCIe carries it
    generation: str  # "NVLink 4", "Infinity Fabric", "PCIe 5"
    nic_bytes_per_s: float  # of the network, for each device
    nics_per_host: int
    # Where a host has fewer devices than its domain (GB200 NVL72: 4 of 72), domains span hosts.
    source: str
    network_source: str  # "asked for", or the rule of thumb that stood in
