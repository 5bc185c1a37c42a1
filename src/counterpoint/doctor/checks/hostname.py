"""The host's own name resolves to nothing, or to itself only.

## What it does

Looks up this host's name, as libraries do that tell others where they listen.

## Why it costs time

A process that tells others 127.0.1.1 waits for connections that never come: Gloo's collectives on
CPUs, MPI and coordinators named by `hostname` hang at the start.

## How it is detected

The addresses of the name. Loopback only (as Debian writes into /etc/hosts) is a warning where
several hosts run together, else fine.

## Example

```
node1 resolves to 127.0.1.1
```

## Fix

An address of the network in /etc/hosts or in the DNS, or the address itself in
`JAX_COORDINATOR_ADDRESS`.

## Fix safety

Other services of the host may rely on the entry.

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
        why="others are told to connect there, and can't",
        remedy="getent hosts $(hostname)   # then mend /etc/hosts, or give addresses by number",
        source=_SOURCE,
    )
