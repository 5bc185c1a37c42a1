"""TCP slows down after idle periods, or retransmits too late.

## What it does

Compares TCP settings with those that Google sets on hosts for multislice training, and with ESnet's
recommendations.

## Why it costs time

A training step sends in bursts. After an idle period, the kernel makes a connection start slowly
again; a lost packet is retransmitted after 200 ms, which may be longer than the step.

## How it is detected

The check reads the kernel's settings, `hystart_detect` of CUBIC and, for the minimum retransmission
timeout, the default route (`rto_min`). If a step's traffic uses TCP, settings that cost time in
each step are warnings, others are notes. `tcp_mtu_probing` is not judged, because the sources
contradict each other.

## Example

```
net.ipv4.tcp_slow_start_after_idle = 1
```

## Fix

`sudo sysctl -w net.ipv4.tcp_slow_start_after_idle=0`, and so on: each result has its command.

## Fix safety

The settings affect all connections of the host, until it is restarted. A short retransmission
timeout is only for networks within a data center.

## False alarms

Traffic that does not use TCP is not affected.

## References

- https://github.com/AI-Hypercomputer/maxtext/blob/bee0290/rto_setup.sh
- https://fasterdata.es.net/host-tuning/linux/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.recommended import BACKLOG, BEHAVIOR, FAST_MBPS, MAXTEXT, compare_sysctls
from counterpoint.doctor.result import CheckResult, Status

CODE: Final = "DOC404"
NAME: Final = "tcp-behavior"
SINCE: Final = "0.1"

_RTO: Final = "net.ipv4.tcp_rto_min_us"
_ACK_TRAIN: Final = 1
_HYSTART: Final = "/sys/module/tcp_cubic/parameters/hystart_detect"


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield verdicts on settings of the kernel, of the default route, and of CUBIC."""
    route = facts.network.route or ""
    wanted = [setting for setting in BEHAVIOR if setting.name != _RTO or "rto_min" not in route]
    if any(
        (interface.speed_mbps or 0) >= FAST_MBPS
        for interface in facts.network.interfaces
        if interface.up
    ):
        wanted.append(BACKLOG)
    yield from compare_sysctls(facts, wanted, "TCP settings are as recommended")
    if facts.hosts > 1 or facts.dcn:
        yield from _retransmission(facts, route)
        yield from _hystart(facts)


def _retransmission(facts: HostFacts, route: str) -> Iterator[CheckResult]:
    """Check the route: kernels before 6.11 have no sysctl for the minimum timeout."""
    if _RTO in facts.network.sysctls or not route or "rto_min" in route:
        return
    yield CheckResult(
        status=Status.NOTE,
        found="the default route has no rto_min: lost packets are retransmitted after 200 ms",
        wanted="5 ms, within a data center",
        why="200 ms is longer than many training steps",
        remedy="sudo ip route change $(ip -4 route show default | head -1) rto_min 5ms",
        source=MAXTEXT,
    )


def _hystart(facts: HostFacts) -> Iterator[CheckResult]:
    text = facts.network.hystart_detect or ""
    cubic = facts.network.sysctls.get("net.ipv4.tcp_congestion_control") == "cubic"
    if cubic and text.isdecimal() and int(text) & _ACK_TRAIN:
        yield CheckResult(
            status=Status.NOTE,
            found=f"CUBIC's hystart_detect = {text}: trains of ACKs count as congestion",
            wanted="2",
            why="connections stop growing too early on fast links",
            remedy=f'sudo sh -c "echo 2 > {_HYSTART}"',
            source=MAXTEXT,
        )
