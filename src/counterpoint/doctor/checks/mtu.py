"""Packets are small on a fast interface between hosts.

## What it does

Looks at the MTU of the interfaces that are up and fast, where several hosts run together.

## Why it costs time

Each packet costs the processor the same. With 1,500 bytes a 100 Gb/s link has 8 million packets per
second; with 9,000 a sixth of that.

## How it is detected

`/sys/class/net`: an interface with a device of its own, up, of 10 Gb/s or more (or on the default
route), with an MTU of 1,500 or less. A note: whether the network carries larger packets can't be
seen from here. Less than 1,500 is Google Cloud's default (1,460), or mostly a tunnel's that can
carry no more: then nothing is to be set on the host. That hosts differ is seen by `--cluster`, and
is a warning.

## Example

```
ens3: MTU 1460
```

## Fix

`sudo ip link set dev ens3 mtu 8896`, after the network has been told the same: in Google Cloud the
VPC takes up to 8,896, in other places 9,000 is usual. A tunnel (VPN, overlay of containers) gets it
where it is made.

## Fix safety

Where the network does not carry it, large packets are lost and connections hang: keep another way
to the host open, and try `ping -M do -s 8868 HOST` at once. It must be the same on all hosts.

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
        yield not_applicable(
            "one host: nothing goes over the network (--dcn: for a run on several)"
        )
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


def _note(one: Interface) -> CheckResult:
    google = one.mtu == _GOOGLE
    tunnel = not google and one.mtu != _SMALL
    wanted = "8,896, if the VPC is set to it" if google else "9,000, if the network carries it"
    remedy = (
        f"sudo ip link set dev {one.name} mtu {8896 if google else 9000}"
        "   # only after the network, and on all hosts"
    )
    if tunnel:
        wanted = "what the network below carries: so small an MTU is mostly a tunnel's"
        remedy = f"ip -d link show dev {one.name}   # a tunnel gets its MTU where it is made"
    return CheckResult(
        status=Status.NOTE,
        found=f"{one.name}: MTU {one.mtu:,}",
        wanted=wanted,
        why="each packet costs the processor the same, however short it is",
        remedy=remedy,
        source="https://docs.cloud.google.com/vpc/docs/mtu"
        if google
        else "https://fasterdata.es.net/network-tuning/mtu-issues/",
    )


def _carries(one: Interface, facts: HostFacts) -> bool:
    if not one.up or not one.physical or one.name == "lo":
        return False
    fast = one.speed_mbps is not None and one.speed_mbps >= _FAST_MBPS
    return fast or (one.speed_mbps is None and one.name in facts.network.default)
