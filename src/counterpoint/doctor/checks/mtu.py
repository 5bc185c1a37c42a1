"""Packets are small on a fast interface between hosts.

## What it does

Checks the MTU of fast interfaces that are up, if several hosts run together.

## Why it costs time

Each packet costs the same processor time. With 1,500 bytes, a 100 Gb/s link carries 8 million
packets per second; with 9,000, a sixth of that.

## How it is detected

The check reads `/sys/class/net`: a physical interface that is up, with 10 Gb/s or more (or on the
default route), and an MTU of 1,500 or less. This is a note, because the host can't see whether the
network carries larger packets. An MTU below 1,500 is Google Cloud's default (1,460), or usually
that of a tunnel that can carry no more; then there is nothing to change on the host. `--compare`
compares the MTU of all hosts, and a difference is a warning.

## Example

```
ens3: MTU 1460
```

## Fix

`sudo ip link set dev ens3 mtu 8896`, after configuring the network: a Google Cloud VPC allows up to
8,896, elsewhere 9,000 is usual. The MTU of a tunnel (VPN, container overlay) is set where the
tunnel is created.

## Fix safety

If the network does not carry them, large packets are lost and connections hang: keep another way to
reach the host, and test with `ping -M do -s 8868 HOST`. The MTU must be the same on all hosts.

## References

- https://docs.cloud.google.com/vpc/docs/mtu
- https://fasterdata.es.net/network-tuning/mtu-issues/
- https://docs.cloud.google.com/compute/docs/networking/tcp-optimization-for-network-performance-in-gcp-and-hybrid
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts, Interface
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok, unknown

CODE: Final = "DOC405"
NAME: Final = "mtu"
SINCE: Final = "0.1"

_SMALL: Final = 1500
_GOOGLE: Final = 1460
_FAST_MBPS: Final = 10_000


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict for each interface with small packets."""
    if facts.hosts == 1 and not facts.dcn:
        yield not_applicable("one host, no traffic between hosts (for several hosts: --dcn)")
        return
    ways = [interface for interface in facts.network.interfaces if _carries(interface, facts)]
    if not ways:
        yield unknown("no interface between hosts was found")
        return
    small = [
        interface for interface in ways if interface.mtu is not None and interface.mtu <= _SMALL
    ]
    yield from map(_note, small)
    if not small:
        yield ok(
            ", ".join(
                f"{interface.name}: MTU {interface.mtu:,}" for interface in ways if interface.mtu
            )
        )


def _note(interface: Interface) -> CheckResult:
    google = interface.mtu == _GOOGLE
    tunnel = not google and interface.mtu != _SMALL
    wanted = "8,896, if the VPC is set to it" if google else "9,000, if the network carries it"
    remedy = (
        f"sudo ip link set dev {interface.name} mtu {8896 if google else 9000}"
        "   # configure the network first, then all hosts"
    )
    if tunnel:
        wanted = "the MTU of the underlying network: one this small is usually a tunnel's"
        remedy = (
            f"ip -d link show dev {interface.name}   # a tunnel's MTU is set where it is created"
        )
    return CheckResult(
        status=Status.NOTE,
        found=f"{interface.name}: MTU {interface.mtu:,}",
        wanted=wanted,
        why="each packet costs the same processor time, whatever its size",
        remedy=remedy,
        source="https://docs.cloud.google.com/vpc/docs/mtu"
        if google
        else "https://fasterdata.es.net/network-tuning/mtu-issues/",
    )


def _carries(interface: Interface, facts: HostFacts) -> bool:
    if not interface.up or not interface.physical or interface.name == "lo":
        return False
    fast = interface.speed_mbps is not None and interface.speed_mbps >= _FAST_MBPS
    return fast or (interface.speed_mbps is None and interface.name in facts.network.default)
