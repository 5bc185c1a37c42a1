"""The host's name resolves to no address, or among several hosts only to loopback.

## What it does

Resolves this host's name, as libraries do that publish their address.

## Why it costs time

A process that publishes 127.0.1.1 waits for connections that never arrive: Gloo's collectives on
CPUs, MPI, and coordinators given by `hostname` hang at startup.

## How it is detected

The check looks up the addresses of the name. A name that resolves only to loopback (as in Debian's
/etc/hosts) is a warning if several hosts run together, otherwise fine.

## Example

```
node1 resolves to 127.0.1.1
```

## Fix

Put an address of the network into /etc/hosts or the DNS, or set `JAX_COORDINATOR_ADDRESS` to an
address.

## Fix safety

Other services on the host may rely on the entry.

## References

- https://docs.jax.dev/en/latest/multi_process.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, ok

CODE: Final = "DOC406"
NAME: Final = "hostname"
SINCE: Final = "0.1"

_SOURCE: Final = "https://docs.jax.dev/en/latest/multi_process.html"


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict on the addresses of the host's name."""
    addresses = facts.network.addresses
    if not addresses:
        yield _bad(facts, f"{facts.host} resolves to no address")
    elif (
        all(address.startswith("127.") or address == "::1" for address in addresses)
        and facts.hosts > 1
    ):
        yield _bad(facts, f"{facts.host} resolves to {', '.join(addresses)} only")
    else:
        yield ok(f"{facts.host} resolves to {', '.join(addresses)}")


def _bad(facts: HostFacts, found: str) -> CheckResult:
    return CheckResult(
        status=Status.WARNING if facts.hosts > 1 else Status.NOTE,
        found=found,
        wanted="an address that other hosts reach",
        why="other hosts try to connect to it, and can't",
        remedy="getent hosts $(hostname)   # then fix /etc/hosts, or use IP addresses",
        source=_SOURCE,
    )
