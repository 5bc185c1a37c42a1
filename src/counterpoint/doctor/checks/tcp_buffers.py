"""TCP's buffers are smaller than traffic between hosts needs.

## What it does

Holds the kernel's limits on TCP buffers to recommended values.

## Why it costs time

A connection carries at most one window per round trip: 4 MB at 1 ms are 4 GB/s, at 10 ms a tenth of
that. Megascale's transfers between slices, and collectives without RDMA, go by TCP.

## How it is detected

`tcp_rmem` and `tcp_wmem` below what kernels have by default (6 and 4 MB) are warnings where a
step's traffic goes by TCP (several hosts without RDMA, or `--dcn`), else notes. What is above the
defaults and below the recommended values is a note.

## Example

```
net.ipv4.tcp_rmem = 4096 87380 212992
```

## Fix

`sudo sysctl -w net.ipv4.tcp_rmem="4096 540000 15728640"`; in a container on its host, or by the
pod's `securityContext.sysctls`. To keep it: a file in /etc/sysctl.d.

## Fix safety

Buffers are memory of the host, per connection, taken only when they fill.

## False alarms

NCCL over InfiniBand and over a plugin of a cloud's own does not use TCP for data.

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
    yield from compare_sysctls(facts, BUFFERS, "TCP's buffers are as recommended")
