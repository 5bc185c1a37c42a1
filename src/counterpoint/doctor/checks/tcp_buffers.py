"""TCP buffers are smaller than traffic between hosts needs.

## What it does

Compares the kernel's limits on TCP buffers with recommended values.

## Why it costs time

A connection carries at most one window per round trip: 4 MB at 1 ms are 4 GB/s, at 10 ms a tenth of
that. Megascale's transfers between slices, and collectives without RDMA, use TCP.

## How it is detected

`tcp_rmem` and `tcp_wmem` below the kernel's defaults (6 and 4 MB) are warnings if a step's traffic
uses TCP (several hosts without RDMA, or `--dcn`), else notes. On one host the check does not apply.
Values between the defaults and the recommendations are notes.

## Example

```
net.ipv4.tcp_rmem = 4096 87380 212992
```

## Fix

`sudo sysctl -w net.ipv4.tcp_rmem="4096 540000 15728640"`; for a container on its host, or by the
pod's `securityContext.sysctls`. To make it permanent, use a file in /etc/sysctl.d.

## Fix safety

Buffers take memory of the host per connection, and only as they fill.

## False alarms

NCCL over InfiniBand, or over a cloud provider's plugin, does not use TCP for data.

## References

- https://github.com/AI-Hypercomputer/maxtext/blob/bee0290/rto_setup.sh
- https://fasterdata.es.net/host-tuning/linux/
- https://docs.cloud.google.com/compute/docs/networking/tcp-optimization-for-network-performance-in-gcp-and-hybrid
- https://openxla.org/xprof/megascale_performance
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.recommended import BUFFERS, compare_sysctls
from counterpoint.doctor.result import CheckResult

CODE: Final = "DOC403"
NAME: Final = "tcp-buffers"
SINCE: Final = "0.1"


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict for each buffer setting that is too small."""
    yield from compare_sysctls(facts, BUFFERS, "TCP buffers are as recommended")
