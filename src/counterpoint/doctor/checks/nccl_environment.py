"""NCCL variables disable a transport, contradict each other, or are left over from debugging.

## What it does

Checks the variables that disable NCCL transports, name network devices, or enable logging.

## Why it costs time

`NCCL_P2P_DISABLE=1` sends NVLink traffic through host memory; `NCCL_IB_DISABLE=1` sends InfiniBand
traffic over TCP. Each makes every collective many times slower, and NCCL prints no warning.

## How it is detected

The check looks at names and values, and at the hardware: `NCCL_IB_DISABLE=1` counts if a port is
up, and a device in `NCCL_IB_HCA` must exist. Unknown names and contradictory values are reported by
`flags` (DOC105).

## Example

```sh
export NCCL_P2P_DISABLE=1
```

## Fix

`unset` the variables that are no longer needed.

## Fix safety

A variable may be set because something hung without it: test in a short run first.

## False alarms

A host whose GPUs can't access each other (some virtual machines) needs `NCCL_P2P_DISABLE=1`.

## References

- https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok

CODE: Final = "DOC401"
NAME: Final = "nccl-environment"
SINCE: Final = "0.1"

_SOURCE: Final = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_TALK: Final = ("info", "trace")


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield verdicts on features switched off, missing devices, and verbose logging."""
    if not facts.has_driver:
        yield not_applicable(facts.gpus.why_none)
        return
    faults = [*_switched_off(facts), *_devices(facts), *_talk(facts)]
    yield from faults
    if not faults:
        count = sum(name.startswith("NCCL_") for name in facts.environment)
        yield ok(f"{count} NCCL variables, none of them harmful")


def _switched_off(facts: HostFacts) -> Iterator[CheckResult]:
    environment = facts.environment
    if environment.get("NCCL_P2P_DISABLE") == "1" and len(facts.gpus.cards) != 1:
        yield _bad(
            "NCCL_P2P_DISABLE",
            environment,
            "GPUs of a host communicate through its memory, not NVLink",
        )
    if environment.get("NCCL_SHM_DISABLE") == "1":
        yield _bad("NCCL_SHM_DISABLE", environment, "GPUs without peer access use the network")
    if environment.get("NCCL_IB_DISABLE") == "1" and facts.has_rdma:
        yield _bad("NCCL_IB_DISABLE", environment, "InfiniBand is up, but collectives use TCP")
    if environment.get("NCCL_NET", "").lower() == "socket" and facts.has_rdma:
        yield _bad("NCCL_NET", environment, "InfiniBand is up, but collectives use TCP")


def _devices(facts: HostFacts) -> Iterator[CheckResult]:
    text = facts.environment.get("NCCL_IB_HCA", "")
    devices = sorted({port.device for port in facts.network.rdma})
    if not text or text.startswith("^"):
        return
    exact = text.startswith("=")
    for word in text.lstrip("=").split(","):
        name = word.split(":")[0].strip()
        hit = any(device == name if exact else device.startswith(name) for device in devices)
        if name and not hit:
            yield CheckResult(
                status=Status.WARNING,
                found=f"NCCL_IB_HCA={text} names {name}, which this host does not have",
                wanted=", ".join(devices) or "a device, but /sys/class/infiniband is empty",
                why="NCCL ignores that card, or finds none and uses TCP",
                remedy="ls /sys/class/infiniband   # then export NCCL_IB_HCA, or unset it",
                source=_SOURCE,
            )


def _talk(facts: HostFacts) -> Iterator[CheckResult]:
    text = facts.environment.get("NCCL_DEBUG", "")
    if text.lower() in _TALK:
        yield CheckResult(
            status=Status.WARNING if text.lower() == "trace" else Status.NOTE,
            found=f"NCCL_DEBUG={text} is still set",
            wanted="WARN, or unset",
            why="NCCL prints lines for each communicator on each rank"
            if text.lower() == "info"
            else "NCCL prints a line for every call",
            remedy="export NCCL_DEBUG=WARN",
            source=_SOURCE,
        )


def _bad(name: str, environment: Mapping[str, str], why: str) -> CheckResult:
    return CheckResult(
        status=Status.WARNING,
        found=f"{name}={environment[name]}",
        wanted="unset",
        why=why,
        remedy=f"unset {name}",
        source=_SOURCE,
    )
