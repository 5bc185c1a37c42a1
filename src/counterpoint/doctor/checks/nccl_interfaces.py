"""NCCL_SOCKET_IFNAME selects no interface of this host that is up.

## What it does

Interprets `NCCL_SOCKET_IFNAME` as NCCL does: prefixes separated by commas, `^` to exclude, `=` for
exact names.

## Why it costs time

If no interface matches, NCCL exits: "Bootstrap: no socket interface found". With an interface of a
container or virtual machine (`docker0`), it connects to addresses that other hosts can't reach, and
hangs.

## How it is detected

The check reads `/sys/class/net`: an interface matches, and it is up. If several hosts run together,
`lo` alone reaches none of them. Without the variable NCCL prefers interfaces other than `lo`,
`docker*` and `virbr*`, and takes `docker*` and then `lo` only where there is no other: there is
nothing to check.

## Example

```sh
export NCCL_SOCKET_IFNAME=eth1   # on a host with ens3 only
```

## Fix

Use the interface of the default route, or unset the variable.

## Fix safety

All ranks must select networks that reach each other.

## False alarms

An interface without a carrier that comes up later counts as down.

## References

- https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname
- https://github.com/NVIDIA/nccl/blob/master/src/misc/socket.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts, Interface
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok, unknown

CODE: Final = "DOC402"
NAME: Final = "nccl-interfaces"
SINCE: Final = "0.1"

_SOURCE: Final = (
    "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname"
)
_NAME: Final = "NCCL_SOCKET_IFNAME"


def matching(text: str, interfaces: tuple[Interface, ...]) -> tuple[Interface, ...]:
    """Return the interfaces that a value selects."""
    unwanted = text.startswith("^")
    rest = text.removeprefix("^")
    exact = rest.startswith("=")
    words = [word.strip() for word in rest.removeprefix("=").split(",") if word.strip()]

    def named(interface: Interface) -> bool:
        return any(
            interface.name == word if exact else interface.name.startswith(word) for word in words
        )

    return tuple(interface for interface in interfaces if named(interface) is not unwanted)


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict on the selected interfaces, and whether they are up."""
    text = facts.environment.get(_NAME, "").strip()
    if not text:
        yield not_applicable(f"{_NAME} is not set; NCCL chooses the interface")
        return
    if not facts.network.interfaces:
        yield unknown("this host's network interfaces can't be listed")
        return
    selected = matching(text, facts.network.interfaces)
    up = [interface.name for interface in selected if interface.up]
    if up == ["lo"] and facts.hosts > 1:
        why = "lo does not reach other hosts: ranks wait for each other, and the start hangs"
        yield _bad(facts, f"{_NAME}={text}: lo only, and {facts.hosts} hosts", why)
    elif up:
        yield ok(f"{_NAME}={text}: {', '.join(up)}")
    else:
        down = ", ".join(interface.name for interface in selected)
        what = f"{down} is down" if down else "no such interface on this host"
        yield _bad(facts, f"{_NAME}={text}: {what}", "NCCL finds no interface and exits")


def _bad(facts: HostFacts, found: str, why: str) -> CheckResult:
    usable = [
        interface.name
        for interface in facts.network.interfaces
        if interface.up and interface.name != "lo"
    ]
    best = next((name for name in facts.network.default if name in usable), (*usable, "eth0")[0])
    return CheckResult(
        status=Status.ERROR,
        found=found,
        wanted=f"one of the interfaces that are up: {', '.join(usable) or 'none'}",
        why=why,
        remedy=f"export {_NAME}={best}",
        source=_SOURCE,
    )
